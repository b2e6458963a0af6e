#!/usr/bin/env python3
"""Checks envelope-invalid.json with a reader of its own: a case whose place is an offset is no
strict JSON object, and one whose place is a pointer is strict JSON that breaks the envelope there.
There is nothing to rewrite, so --check is the only mode."""
import base64, datetime, json, pathlib, re, sys, unicodedata

FILE = pathlib.Path(__file__).with_name("envelope-invalid.json")
SAFE = 2**53 - 1
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
NAME = re.compile(r"[a-z][a-z0-9-]*")
CONTRACT = re.compile(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+")
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)


def refuse(*_):
    raise ValueError


def integer(text):
    number = int(text) if len(text) <= 20 else refuse()
    return refuse() if text == "-0" or abs(number) > SAFE else number


def members(pairs):
    return refuse() if len({name for name, _ in pairs}) < len(pairs) or len(pairs) > 256 else dict(pairs)


def walk(value, depth):
    if isinstance(value, str):
        if "\0" in value or any(0xD800 <= ord(c) <= 0xDFFF for c in value):
            refuse()
    elif isinstance(value, (dict, list)):
        parts = value if isinstance(value, list) else [*value.keys(), *value.values()]
        return refuse() if depth > 16 else [walk(part, depth + 1) for part in parts]


def strict(data):
    text = data.decode("utf-8")
    hooks = {"object_pairs_hook": members, "parse_int": integer}
    document = json.loads(text, parse_float=refuse, parse_constant=refuse, **hooks)
    walk(document, 1)
    return document if isinstance(document, dict) and text[:1] != "\ufeff" else refuse()


def text(pattern, maximum):
    return lambda v: isinstance(v, str) and len(v) <= maximum and pattern.fullmatch(v)


def number(least, greatest):
    return lambda v: type(v) is int and least <= v <= greatest


def aggregate_id(value):
    visible = isinstance(value, str) and value == " ".join(value.split()) != ""
    plain = visible and all(unicodedata.category(c)[0] != "C" for c in value)
    return plain and len(value.encode()) <= 256 and unicodedata.is_normalized("NFC", value)


def moment(value):
    try:
        return TIME.fullmatch(value) and datetime.datetime.fromisoformat(value[:-1])
    except (TypeError, ValueError):
        return None


AGGREGATE = {
    "type": text(NAME, 64), "id": aggregate_id,
    "sequence": number(0, SAFE), "eventIndex": number(0, 2**31 - 1),
}
ENVELOPE = {
    "envelopeVersion": lambda v: type(v) is int and v == 1,
    "eventId": text(TOKEN, 96), "contractId": text(CONTRACT, 96),
    "payloadVersion": number(1, 2**31 - 1), "logicalDestination": text(NAME, 96),
    "aggregate": lambda v: isinstance(v, dict), "occurredAt": moment,
    "correlationId": text(TOKEN, 128), "contentType": lambda v: v == "application/json",
    "payload": lambda v: isinstance(v, dict),
}
OPTIONAL = {
    "causationId": text(TOKEN, 128),
    "tenantId": lambda v: text(TOKEN, 96)(v) and v.lower() != "system",
}


def broken(document, rules, optional, at=""):
    """Every place of the document that breaks a rule."""
    known = rules | optional
    places = {at} if any(name not in known for name in document) else set()
    places |= {f"{at}/{name}" for name in rules if name not in document}
    places |= {f"{at}/{n}" for n, v in document.items() if n in known and not known[n](v)}
    if isinstance(document.get("aggregate"), dict):
        places |= broken(document["aggregate"], AGGREGATE, {}, "/aggregate")
    return places


def as_the_file_says(case):
    encoded = case.get("documentBase64")
    data = base64.b64decode(encoded) if encoded else case["document"].encode()
    try:
        places = broken(strict(data), ENVELOPE, OPTIONAL)
    except (ValueError, RecursionError):
        return isinstance(case["pointerOrOffset"], int) and case["pointerOrOffset"] <= len(data)
    return places == {case["pointerOrOffset"]}


if sys.argv[1:] != ["--check"]:
    sys.exit(__doc__)
cases = json.loads(FILE.read_text(encoding="utf-8"))
differing = [case["name"] for case in cases if not as_the_file_says(case)]
sys.exit(f"{FILE.name} differs at: {differing}" if differing else 0)
