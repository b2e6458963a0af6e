#!/usr/bin/env python3
"""Recomputes envelopeSha256 of envelope-hash.json; --check compares instead of rewriting."""
import hashlib, json, pathlib, sys

FILE = pathlib.Path(__file__).with_name("envelope-hash.json")
vectors = json.loads(FILE.read_text(encoding="utf-8"))
differing = []
for vector in vectors:
    envelope = vector["envelope"].encode("utf-8")
    data = b"ca-skeleton.messaging.envelope.v1\0" + len(envelope).to_bytes(4, "big") + envelope
    digest = hashlib.sha256(data).hexdigest()
    differing += [vector["name"]] if vector.get("envelopeSha256") != digest else []
    vector["envelopeSha256"] = digest
if sys.argv[1:] == ["--check"]:
    sys.exit(f"{FILE.name} differs at: {differing}" if differing else 0)
FILE.write_text(json.dumps(vectors, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
