"""The OpenAPI file: the routes' own, and operations that were written by hand."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

PROBLEM = {
    "type": "object",
    "description": "RFC 9457: what was found, what was expected, what to do.",
    "required": ["type", "title", "status", "detail", "errors"],
    "properties": {
        "type": {"type": "string", "description": "Kind of the problem: urn:crossline:problem:…"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["pointer", "found", "expected", "hint"],
                "properties": {
                    "pointer": {"type": "string"},
                    "found": {"type": "string"},
                    "expected": {"type": "string"},
                    "hint": {"type": ["string", "null"]},
                },
            },
        },
    },
}
_ANSWER = {
    "description": "A problem.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_VERBS = frozenset({"get", "put", "post", "delete", "patch"})
_WRITES = _VERBS - {"get"}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
    "description": "Sent again with the same key, a write is answered as the first time and done once.",
}
_OPEN = frozenset({"/healthz", "/readyz"})


def with_path(document: dict[str, Any], path: str, item: Mapping[str, Any], **schemas: Any) -> dict[str, Any]:
    """``document`` with the operations of ``item`` at ``path``, beside those that are there.

    ``schemas``: what they refer to as ``#/components/schemas/NAME``. Raises ValueError if one stands there already.

    >>> with_path({"paths": {}}, "/v1/x", {"get": {"responses": {}}})["paths"]["/v1/x"]
    {'get': {'responses': {}}}
    """
    whole = copy.deepcopy(document)
    there = whole["paths"].setdefault(path, {})
    known = whole.setdefault("components", {}).setdefault("schemas", {}) if schemas else {}
    twice = (there.keys() & item.keys()) | (known.keys() & schemas.keys())
    if twice:
        raise ValueError(f"{path}: {', '.join(sorted(twice))} is there already")
    there.update(copy.deepcopy(dict(item)))
    known.update(copy.deepcopy(schemas))
    return whole


def document_of(app: FastAPI, extra: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The OpenAPI document of the app, with the path items of ``extra``, by path."""
    document = get_openapi(
        title="crossline",
        version="1",
        openapi_version="3.1.0",
        summary="Decisions on records, and what they rest on.",
        routes=app.routes,
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    document["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"bearer": []}]
    for path, item in document["paths"].items():
        for verb in _VERBS & item.keys():
            _complete(path, verb, item[verb])
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, item in extra.items():
        document = with_path(document, path, item)
    return document


def _complete(path: str, verb: str, operation: dict[str, Any]) -> None:
    """What is the same of all: problems, the key of writes, and which need none of the caller."""
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = _ANSWER
    if path in _OPEN:
        operation["security"] = []
    if verb in _WRITES:
        operation.setdefault("parameters", []).append(_KEY)


def operations_table(document: Mapping[str, Any]) -> str:
    """The operations of a document as a table of a page, in the order of their addresses."""
    lines = ["| operation | scope | what it does |", "|---|---|---|"]
    for path, item in sorted(document["paths"].items()):
        for verb in (each for each in ("get", "post", "put", "patch", "delete") if each in item):
            operation = item[verb]
            scope = operation.get("x-crossline-scope")
            text = "no key" if operation.get("security") == [] else f"`{scope}`" if scope else "any"
            lines.append(f"| `{verb.upper()} {path}` | {text} | {operation.get('summary', '')} |")
    return "\n".join(lines) + "\n"
