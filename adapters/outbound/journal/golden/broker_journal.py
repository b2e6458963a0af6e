#!/usr/bin/env python3
"""Writes broker.journal, the golden file of the broker's journal, from the format's description.

Independent of the Rust code on purpose: it knows only the format (see src/record/mod.rs,
src/broker/record.rs and the Polymorph Data Encoding's code table) and the list of records below,
which tests/it/broker.rs repeats. Without arguments it writes the file beside it; with --check it
compares, byte for byte, and exits with 1 when they differ.
"""

import hashlib
import pathlib
import sys

MIN_SECONDS = -31557014167219200
MAX_SECONDS = 31556889864403199
MAX_NANOS = 999999999
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NULL_BYTES, NULL_ASCII, NULL_UTF8 = b"\x17", b"\x30", b"\x49"


def width(number):
    return max(1, (number.bit_length() + 7) // 8)


def little(number):
    return number.to_bytes(width(number), "little")


def integer(number):
    if number < 0:
        body = -number - 1
        return bytes([12 + width(body) - 1]) + little(body)
    return bytes([4 + width(number) - 1]) + little(number)


def sized(null_code, body):
    if len(body) <= 15:
        return bytes([null_code + 1 + len(body)]) + body
    return bytes([null_code + 17 + width(len(body)) - 1]) + little(len(body)) + body


def raw(body):
    return sized(23, body)


def ascii_text(text):
    return sized(48, text.encode("ascii"))


def object_of(body):
    return bytes([144 + width(len(body)) - 1]) + little(len(body)) + body


def patterned(number, length):
    return bytes((number * 31 + index * 7) % 256 for index in range(length))


def key(number):
    return hashlib.sha256(b"golden-key-%d" % number).digest()


# (seconds, nanos, partition key, traceparent, envelope), numbered from 1 in this order.
RECORDS = [
    (0, 0, bytes(32), None, b""),
    (MIN_SECONDS, 0, b"\xff" * 32, TRACEPARENT, patterned(2, 1)),
    (MAX_SECONDS, MAX_NANOS, key(3), TRACEPARENT, patterned(3, 15)),
    (-1, MAX_NANOS, key(4), None, patterned(4, 16)),
    (1, 1, key(5), None, patterned(5, 255)),
    (255, 255, key(6), TRACEPARENT, patterned(6, 256)),
    (256, 256, key(7), None, patterned(7, 17)),
    (-256, 65535, key(8), None, patterned(8, 0)),
    (-257, 65536, key(9), TRACEPARENT, patterned(9, 100)),
    (
        1700000000,
        123000000,
        key(10),
        TRACEPARENT,
        '{"eventId":"e-10","title":"Grüße, 世界"}'.encode("utf-8"),
    ),
    # Exactly 1,024 bytes: every value at its widest but the sequence, whose seven bytes go to the
    # envelope.
    (MIN_SECONDS, MAX_NANOS, key(11), TRACEPARENT, patterned(11, 818)),
    (4294967295, 16777215, key(12), None, patterned(12, 300)),
    (4294967296, 16777216, key(13), None, patterned(13, 14)),
    # The narrowest payload object with two length bytes, and the widest with one.
    (0, 0, key(14), None, patterned(14, 213)),
    (0, 0, key(15), None, patterned(15, 212)),
]


def journal():
    out = b""
    previous = hashlib.sha256(b"").digest()
    for index, (seconds, nanos, partition_key, traceparent, envelope) in enumerate(RECORDS):
        payload = object_of(
            integer(seconds)
            + integer(nanos)
            + NULL_UTF8
            + NULL_BYTES
            + raw(partition_key)
            + (NULL_ASCII if traceparent is None else ascii_text(traceparent))
            + raw(envelope)
        )
        covered = (
            raw(previous)
            + integer(index + 1)
            + ascii_text("EnvelopePublished")
            + integer(1)
            + payload
        )
        checksum = hashlib.sha256(covered).digest()
        body = raw(checksum) + covered
        record = b"\x91" + len(body).to_bytes(2, "little") + body
        assert len(record) <= 1024, (index + 1, len(record))
        out += record
        previous = checksum
    return out


def main(arguments):
    path = pathlib.Path(__file__).with_name("broker.journal")
    expected = journal()
    if arguments == []:
        path.write_bytes(expected)
        return 0
    if arguments == ["--check"]:
        if path.read_bytes() == expected:
            return 0
        print(f"{path.name} is not what the format says", file=sys.stderr)
        return 1
    print("usage: broker_journal.py [--check]", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
