"""Writes the reference of the HTTP API from ``docs/openapi.json``.

``python -m tools.docs.http_api``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from tools.docs.markdown import code, table

FILE = Path(__file__).parents[2] / "docs" / "openapi.json"
_HEAD = """\
# HTTP API

Every operation, with what it takes and gives. The same as a file of OpenAPI 3.1: [openapi.json](openapi.json).
[api.md](api.md) and [decision-api.md](decision-api.md) say how they are used, [access.md](access.md) who may ask.
Where an answer is no, its body is a [`Problem`](#problem).
"""
_FIELDS = ("field", "value", "", "meaning")


def page() -> str:
    """The whole page."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    found = [(_tag(each), f"{method.upper()} {path}", each) for path, method, each in _operations(document)]
    parts = [_HEAD]
    for tag, group in groupby(sorted(found, key=lambda one: one[0]), key=lambda one: one[0]):
        parts.append(f"## {tag.capitalize()}\n")
        parts += [line for _, name, each in group for line in _operation(name, each)]
    parts.append("## Bodies\n")
    for name, schema in document["components"]["schemas"].items():
        parts += [f"### {name}\n", f"{schema.get('description', '')}\n", *table(_FIELDS, _fields(schema))]
    return "\n".join(parts)


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in document["paths"].items():
        yield from ((path, method, each) for method, each in methods.items())


def _tag(operation: Mapping[str, Any]) -> str:
    return str(operation.get("tags", ["server"])[0])


def _operation(name: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{operation['summary']}. Scope: {code(operation.get('x-crossline-scope') or 'none')}.\n"
    if operation.get("description"):
        yield operation["description"].replace("``", "`") + "\n"
    parameters = operation.get("parameters", [])
    yield from table(("parameter", "in", "value", "", "meaning"), map(_parameter, parameters))
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        yield f"Body: {_type(body)}. {body.get('description', '')}\n"
        yield from table(_FIELDS, _fields(body))
    for status, answer in operation["responses"].items():
        schema: dict[str, Any] = next((each["schema"] for each in answer.get("content", {}).values()), {})
        if status != "default" and schema.get("properties"):
            yield f"Answer {status}:\n"
            yield from table(_FIELDS, _fields(schema))


def _parameter(each: Mapping[str, Any]) -> tuple[str, ...]:
    needed = "required" if each.get("required") else ""
    return code(each["name"]), each["in"], _type(each["schema"]), needed, each.get("description", "")


def _fields(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, each in schema.get("properties", {}).items():
        needed = "required" if name in schema.get("required", ()) else ""
        yield code(name), _type(each), needed, each.get("description", "")


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in words: the body's name, the values that it may have, or its type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(code(str(each)) for each in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any value")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


if __name__ == "__main__":
    sys.stdout.write(page())
