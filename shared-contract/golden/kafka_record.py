#!/usr/bin/env python3
"""Golden vectors of the Kafka record: what a stored event becomes on the wire.

Run without arguments to write kafka-record.json beside this file; with --check to compute every
record again from the events in that file and compare. It shares no code with the product.
"""

import hashlib
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("kafka-record.json")
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def partition_key(event):
    """SHA-256 over the domain, a zero byte and four length-prefixed parts, in hexadecimal."""
    hasher = hashlib.sha256(b"ca-skeleton.messaging.partition-key.v1\0")
    for name in ("tenantScope", "logicalDestinationId", "aggregateType", "aggregateId"):
        part = event[name].encode()
        hasher.update(len(part).to_bytes(4, "big") + part)
    return hasher.hexdigest()


def record(event):
    """The record of an event: nothing is encoded, only placed."""
    headers = [
        ["id", event["eventId"]],
        ["contract-id", event["contractId"]],
        ["payload-version", str(event["payloadVersion"])],
    ]
    for name in ("traceparent", "tracestate"):
        if name in event:
            headers.append([name, event[name]])
    at = event["occurredAt"]
    return {
        "key": partition_key(event),
        "value": event["envelope"],
        "timestamp": at["seconds"] * 1000 + at["nanos"] // 1_000_000,
        "headers": headers,
    }


def event(**changes):
    base = {
        "eventId": "019f2d1c-7a6b-7c11-9d55-3f0e8a1b2c3d",
        "contractId": "portfolio.worklog.reserved",
        "payloadVersion": 1,
        "tenantScope": "system",
        "logicalDestinationId": "portfolio-domain-events",
        "aggregateType": "worklog",
        "aggregateId": "w-1",
        "occurredAt": {"seconds": 1785215430, "nanos": 123000000},
        "envelope": '{"eventId":"019f2d1c-7a6b-7c11-9d55-3f0e8a1b2c3d","payload":{"hours":3}}',
    }
    return base | changes


EVENTS = {
    "plain": event(),
    "with a trace parent": event(traceparent=PARENT),
    "with a trace parent and state": event(
        traceparent=PARENT, tracestate="vendor=1,other=t61rcWkgMzE"
    ),
    "non-ASCII document and aggregate": event(
        aggregateId="일지-7", envelope='{"payload":{"title":"작업 일지 ✓ é 𝄞"}}'
    ),
    "finer time is cut, not rounded": event(
        occurredAt={"seconds": 1785215430, "nanos": 999999999}
    ),
    "first representable millisecond": event(occurredAt={"seconds": 0, "nanos": 1000000}),
    "before 1970, cut towards the past": event(occurredAt={"seconds": -1, "nanos": 999999}),
    "a tenant's event": event(tenantScope="tenant-a.eu:1"),
    "same aggregate, another destination": event(logicalDestinationId="portfolio-audit-events"),
    "length-prefix twin, first": event(aggregateType="ab", aggregateId="c"),
    "length-prefix twin, second": event(aggregateType="a", aggregateId="bc"),
    "empty-looking document": event(envelope="{}"),
    "greatest payload version": event(payloadVersion=2147483647),
    "escapes are bytes like others": event(envelope='{"payload":"\\u0000\\"\\\\\\n\t"}'),
    "longest identities": event(
        eventId="e" * 96,
        contractId="c." + "d" * 94,
        payloadVersion=2147483647,
        tenantScope="T" * 96,
        logicalDestinationId="l" * 96,
        aggregateType="a" * 64,
        aggregateId="é" * 128,
        traceparent=PARENT,
        tracestate="s" * 512,
    ),
}


def main():
    if sys.argv[1:] == ["--check"]:
        vectors = json.loads(FILE.read_text("utf-8"))
        wrong = [v["name"] for v in vectors if record(v["event"]) != v["record"]]
        missing = EVENTS.keys() - {v["name"] for v in vectors}
        if wrong or missing or len(vectors) < 10:
            sys.exit(f"kafka-record.json: wrong {wrong}, missing {sorted(missing)}")
        print(f"kafka-record.json: {len(vectors)} vectors hold")
        return
    if sys.argv[1:]:
        sys.exit("usage: kafka_record.py [--check]")
    vectors = [{"name": n, "event": e, "record": record(e)} for n, e in EVENTS.items()]
    FILE.write_text(json.dumps(vectors, ensure_ascii=False, indent=2) + "\n", "utf-8")


main()
