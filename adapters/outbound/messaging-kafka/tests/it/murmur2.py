#!/usr/bin/env python3
"""Where the Java client's default partitioner puts a key: murmur2, made positive, modulo the
number of partitions. Writes murmur2.json beside this file; --check compares instead.

The hash is held to the values that Kafka's own unit tests state.
"""

import hashlib
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("murmur2.json")
PARTITIONS = 6
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def murmur2(data):
    mask = 0xFFFFFFFF
    m = 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    tail = data[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def partition_key(aggregate_id):
    hasher = hashlib.sha256(b"ca-skeleton.messaging.partition-key.v1\0")
    for part in ("system", "test-events", "worklog", aggregate_id):
        hasher.update(len(part.encode()).to_bytes(4, "big") + part.encode())
    return hasher.hexdigest()


def vector(aggregate_id):
    key = partition_key(aggregate_id)
    positive = murmur2(key.encode()) & 0x7FFFFFFF
    return {"aggregateId": aggregate_id, "key": key, "partition": positive % PARTITIONS}


def main():
    for data, expected in KNOWN.items():
        unsigned = expected & 0xFFFFFFFF
        if murmur2(data) != unsigned:
            sys.exit(f"murmur2 of {data} is {murmur2(data)}, not {unsigned}")
    vectors = [vector(f"w-{number}") for number in range(24)]
    if len({v["partition"] for v in vectors}) != PARTITIONS:
        sys.exit("the vectors do not reach every partition")
    text = json.dumps(vectors, indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text("utf-8") != text:
            sys.exit("murmur2.json differs")
        print(f"murmur2.json: {len(vectors)} vectors hold")
    else:
        FILE.write_text(text, "utf-8")


main()
