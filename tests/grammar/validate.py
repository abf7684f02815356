"""Judges texts that a grammar allowed by the schema that it was made from.

Usage: test_grammar samples | validate.py SCHEMAS.json TOOLS.json

A line is ["schema", number of the schema, pieces of the text...], or ["tools", 0, pieces...]; a special token is
a piece of its own, [content]. Also checks that the documents of SCHEMAS.json are what they are said to be. The
judge is Debian's python3-jsonschema; tool calls are read by the parser below, which follows the chat format's
description and not this project's code.
"""

import datetime
import json
import sys

import jsonschema

CHECKER = jsonschema.FormatChecker()


@CHECKER.checks("date-time", raises=ValueError)
def is_date_time(text):
    datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return text[10] == "T"


@CHECKER.checks("time", raises=ValueError)
def is_time(text):
    with_seconds = text[5] == ":"
    return with_seconds and datetime.time.fromisoformat(text.replace("Z", "+00:00")).tzinfo is not None


@CHECKER.checks("uuid", raises=ValueError)
def is_uuid(text):
    return [len(part) for part in text.split("-")] == [8, 4, 4, 4, 12] and int(text.replace("-", ""), 16) >= 0


def judge(value, schema, closed):
    """The first complaint, or None."""
    validator = jsonschema.Draft202012Validator(schema, format_checker=CHECKER)
    for error in validator.iter_errors(value):
        return error.message
    if closed and isinstance(value, dict) and set(value) - set(schema.get("properties", {})):
        return "members that are not listed"
    return None


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def read_json(text):
    return json.loads(text, parse_constant=refuse_constant)


class Calls:
    """Tool calls: characters and special tokens in a row."""

    def __init__(self, pieces):
        self.items = []
        for piece in pieces:
            self.items += [piece] if isinstance(piece, list) else list(piece)
        self.at = 0

    def take(self, wanted):
        for item in [wanted] if isinstance(wanted, list) else wanted:
            if self.items[self.at] != item:
                raise ValueError(f"{item} expected, {self.items[self.at : self.at + 10]} found")
            self.at += 1

    def next_is(self, item):
        return self.items[self.at] == item

    def until(self, ends):
        start = self.at
        while self.items[self.at] not in ends:
            self.at += 1
        return self.items[start : self.at]

    def members(self, close):
        while not self.next_is(close):
            yield
            if not self.next_is(close):
                self.take(",")
                if self.next_is(close):
                    raise ValueError("a comma at the end")
        self.take(close)

    def value(self):
        if self.next_is(['<|"|>']):
            self.take(['<|"|>'])
            text = "".join(self.until([['<|"|>']]))
            self.take(['<|"|>'])
            return text
        if self.next_is("{"):
            return self.object()
        if self.next_is("["):
            self.take("[")
            return [self.value() for _ in self.members("]")]
        return read_json("".join(self.until([",", "}", "]"])))

    def object(self):
        self.take("{")
        pairs = []
        for _ in self.members("}"):
            key = "".join(self.until([":"]))
            self.take(":")
            pairs.append((key, self.value()))
        return dict(pairs), [key for key, _ in pairs]

    def call(self):
        self.take(["<|tool_call>"])
        self.take("call:")
        name = "".join(self.until(["{"]))
        arguments = self.object()
        self.take(["<tool_call|>"])
        return name, arguments

    def all(self):
        while self.at < len(self.items):
            yield self.call()


def plain(value):
    """Objects without the order of their keys."""
    if isinstance(value, tuple):
        return {key: plain(inner) for key, inner in value[0].items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def judge_calls(pieces, tools):
    count = 0
    for name, arguments in Calls(pieces).all():
        count += 1
        schema = tools[name]
        keys = arguments[1]
        listed = [key for key in keys if key in schema.get("properties", {})]
        if listed != sorted(listed, key=str.lower):
            return f"keys out of order: {keys}"
        complaint = judge(plain(arguments), schema, "properties" in schema)
        if complaint:
            return complaint
    return None if count else "no call"


def main():
    schemas = json.load(open(sys.argv[1], encoding="utf-8"))
    tools = {tool["name"]: tool["parameters"] for tool in json.load(open(sys.argv[2], encoding="utf-8"))}
    wrong = []
    for entry in schemas:
        for kind in ("valid", "invalid"):
            for text in entry[kind]:
                try:
                    complaint = judge(read_json(text), entry["schema"], entry["closed"])
                except ValueError as error:
                    complaint = str(error)
                if (complaint is None) != (kind == "valid"):
                    wrong.append(f"{entry['name']}: listed as {kind}: {text[:100]}: {complaint}")
    counts = {}
    for line in sys.stdin:
        source, index, *pieces = json.loads(line)
        counts[source, index] = counts.get((source, index), 0) + 1
        try:
            if source == "tools":
                complaint = judge_calls(pieces, tools)
            else:
                entry = schemas[index]
                complaint = judge(read_json("".join(pieces)), entry["schema"], entry["closed"])
        except (ValueError, KeyError, IndexError) as error:
            complaint = repr(error)
        if complaint:
            wrong.append(f"{source} {index}: {line.strip()[:300]}: {complaint[:200]}")
    if len(counts) != len(schemas) + 1:
        wrong.append(f"texts of {len(counts)} grammars, not of {len(schemas) + 1}")
    print("\n".join(wrong[:50]))
    print(f"{sum(counts.values())} texts of {len(counts)} grammars, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main())
