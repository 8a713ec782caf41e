#!/usr/bin/env python3
"""Checks a JSON document against the schema of `weir replay --json`.    json_schema.py SCHEMA FILE...

Knows the keywords that the schema uses, and refuses a schema with others.
"""
import json
import sys

KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "properties", "required", "additionalProperties",
         "items", "enum", "const", "oneOf"}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
         "null": type(None)}


def fits(value, name):
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def problems(schema, value, where, root):
    unknown = set(schema) - KNOWN
    if unknown:
        yield f"the schema has {unknown} at {where}"
    if "$ref" in schema:
        yield from problems(root["$defs"][schema["$ref"].rsplit("/", 1)[1]], value, where, root)
        return
    if "oneOf" in schema:
        tries = [list(problems(one, value, where, root)) for one in schema["oneOf"]]
        if sum(not found for found in tries) != 1:
            yield from min(tries, key=len)
        return
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(fits(value, name) for name in names):
        yield f"{where}: {value!r} is not {' or '.join(names)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{where}: {value!r} is not {schema['const']!r}"
    if isinstance(value, dict):
        yield from problems_of_members(schema, value, where, root)
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(schema.get("items", {}), item, f"{where}[{number}]", root)


def problems_of_members(schema, value, where, root):
    members = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            yield f"{where}: no member {name}"
    for name, item in value.items():
        other = schema.get("additionalProperties", True)
        if name in members:
            yield from problems(members[name], item, f"{where}.{name}", root)
        elif other is False:
            yield f"{where}: the schema does not know {name}"
        elif other is not True:
            yield from problems(other, item, f"{where}.{name}", root)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    found = []
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            found += [f"{path}: {text}" for text in problems(schema, json.load(file), "$", schema)]
    print("\n".join(found[:20]) or f"{len(sys.argv) - 2} documents fit the schema")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
