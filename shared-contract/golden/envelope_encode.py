#!/usr/bin/env python3
"""Recomputes envelope of envelope-encode.json; --check compares instead of rewriting."""
import datetime, json, pathlib, sys

FILE = pathlib.Path(__file__).with_name("envelope-encode.json")
BEFORE = ["eventId", "contractId", "payloadVersion", "logicalDestination", "aggregate"]
IDS = ["correlationId", "causationId", "tenantId"]


def encode(draft):
    at = draft["occurredAt"]
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=at["seconds"])
    document = {"envelopeVersion": 1} | {name: draft[name] for name in BEFORE}
    order = ["type", "id", "sequence", "eventIndex"]
    document["aggregate"] = {name: draft["aggregate"][name] for name in order}
    document["occurredAt"] = f"{moment.isoformat()}.{at['nanos'] // 1_000_000:03}Z"
    document |= {name: draft[name] for name in IDS if name in draft}
    document |= {"contentType": "application/json", "payload": draft["payload"]}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


vectors = json.loads(FILE.read_text(encoding="utf-8"))
differing = [v["name"] for v in vectors if v.get("envelope") != encode(v["draft"])]
if sys.argv[1:] == ["--check"]:
    sys.exit(f"{FILE.name} differs at: {differing}" if differing else 0)
vectors = [{**vector, "envelope": encode(vector["draft"])} for vector in vectors]
FILE.write_text(json.dumps(vectors, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
