#!/usr/bin/env python3
"""Recomputes partitionKeyText of partition-key.json; --check compares instead of rewriting."""
import hashlib, json, pathlib, sys

FILE = pathlib.Path(__file__).with_name("partition-key.json")
PARTS = ["tenantScope", "logicalDestinationId", "aggregateType", "aggregateId"]
vectors = json.loads(FILE.read_text(encoding="utf-8"))
differing = []
for vector in vectors:
    data = b"ca-skeleton.messaging.partition-key.v1\0"
    for text in (vector[name].encode("utf-8") for name in PARTS):
        data += len(text).to_bytes(4, "big") + text
    key = hashlib.sha256(data).hexdigest()
    differing += [vector["name"]] if vector.get("partitionKeyText") != key else []
    vector["partitionKeyText"] = key
if sys.argv[1:] == ["--check"]:
    sys.exit(f"{FILE.name} differs at: {differing}" if differing else 0)
FILE.write_text(json.dumps(vectors, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
