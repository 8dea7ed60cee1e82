"""Whatever the client uses of the API stands in the OpenAPI document: ``missing`` says what does not."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crossline.client.calls import OPERATIONS, Operation
from crossline.client.values import AsOf, Decision, Degraded, Figure, Reason

DOCUMENT = Path(__file__).parents[3] / "docs" / "openapi.json"
# What the client adds by itself, or keeps of the answer as a whole.
OWN = {"replayed", "body"}


def missing(document: Mapping[str, Any], operations: Mapping[str, Operation] = OPERATIONS) -> list[str]:
    """What of ``operations``, and of a decision's fields, ``document`` does not have; none: the client fits it."""
    paths: dict[str, dict[str, Any]] = {}
    for path, item in document["paths"].items():  # POST …/{stream} and GET …/{decision_id} are two of one shape
        paths.setdefault(_shape(path), {}).update(item)
    of_calls = [found for name, each in operations.items() for found in _of(document, paths, name, each)]
    return [*of_calls, *_of_a_decision(document, paths)]


def _of(document: Mapping[str, Any], paths: Mapping[str, Any], name: str, each: Operation) -> Iterator[str]:
    item = paths.get(_shape(each.path), {})
    found = item.get(each.method.lower())
    if found is None:
        yield f"{name}: {each.method} {each.path}"
        return
    given = [_resolved(document, one) for one in (*item.get("parameters", ()), *found.get("parameters", ()))]
    query = {one["name"] for one in given if one["in"] == "query"}
    headers = {one["name"].lower() for one in given if one["in"] == "header"}
    # Parameters of which the name is not known ahead (key.FIELD) cannot be written in OpenAPI one by one.
    yield from (f"{name}: query {one}" for one in each.query if one not in query and not one.endswith(".*"))
    yield from (f"{name}: header {one}" for one in each.headers if one.lower() not in headers)
    if each.body:
        body = _resolved(document, found.get("requestBody", {}))
        fields = _fields(document, body.get("content", {}).get("application/json", {}).get("schema", {}))
        yield from (f"{name}: field {one} of the body" for one in each.body if one not in fields)


def _of_a_decision(document: Mapping[str, Any], paths: Mapping[str, Any]) -> Iterator[str]:
    answer = paths.get("/v1/decisions/{}", {}).get("post", {}).get("responses", {}).get("200", {})
    schema = _resolved(document, answer).get("content", {}).get("application/json", {}).get("schema", {})
    fields = _fields(document, schema)
    yield from (f"decision: {name}" for name in _names(Decision) if name not in fields)
    for part, kind in (("reasons", Reason), ("degraded", Degraded), ("as_of", AsOf), ("figures", Figure)):
        inner = _resolved(document, fields.get(part, {}))
        inner = inner.get("items", inner.get("additionalProperties", inner)) if part != "as_of" else inner
        known = _fields(document, inner if isinstance(inner, Mapping) else {})
        yield from (f"decision: {part}.{name}" for name in _names(kind) if name not in known)


def _names(kind: type) -> list[str]:
    return [each.name for each in dataclasses.fields(kind) if each.name not in OWN]


def _shape(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)


def _resolved(document: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name.replace("~1", "/").replace("~0", "~")]
        part = found
    return part


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    schema = _resolved(document, schema)
    found = dict(schema.get("properties", {}))
    for way in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(way, ()):
            found |= _fields(document, each)
    return found


def made() -> dict[str, Any]:
    """A document of all that the client uses, written by hand of the parts of the contract."""

    def model(*names: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {} for name in names}}

    decision = model(
        *("decision_id", "stream", "record_id", "decision", "score", "answered", "policy_version", "rules_digest"),
        *("decided_at", "took_ms", "receipt"),
    )
    reason = ("rule_id", "rule_version", "action", "score", "alert_id", "standing", "message", "held_by")
    figure = ("value", "operator", "threshold", "window_start", "window_end")
    decision["properties"] |= {
        "reasons": {"type": "array", "items": {"$ref": "#/components/schemas/Reason"}},
        "figures": {"type": "object", "additionalProperties": model(*figure)},
        "as_of": {"anyOf": [model("batch", "age_ms", "laid_over"), {"type": "null"}]},
        "degraded": {"type": "array", "items": model("part", "why")},
    }
    paths: dict[str, Any] = {}
    for each in OPERATIONS.values():
        parameters = [{"in": "query", "name": name} for name in each.query if not name.endswith(".*")]
        parameters += [{"in": "header", "name": name.lower()} for name in each.headers]
        body = {"requestBody": {"content": {"application/json": {"schema": model(*each.body)}}}} if each.body else {}
        path = each.path.replace("{id}", "{some_id}")
        paths.setdefault(path, {})[each.method.lower()] = {"parameters": parameters, **body}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Decision"}}}
    paths["/v1/decisions/{stream}"]["post"]["responses"] = {"200": {"content": content}}
    return {"paths": paths, "components": {"schemas": {"Decision": decision, "Reason": model(*reason)}}}


def test_a_document_that_has_all() -> None:
    assert missing(made()) == []


def test_what_a_document_lacks_is_stated() -> None:
    document = copy.deepcopy(made())
    del document["paths"]["/v1/lists/{name}/{entry}"]["put"]
    document["paths"]["/v1/decisions/{stream}"]["post"]["parameters"].pop(1)
    del document["paths"]["/v1/holds"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"][
        "key"
    ]
    document["paths"]["/v1/labels/{stream}/{record_id}"]["put"]["parameters"].pop()
    del document["components"]["schemas"]["Decision"]["properties"]["receipt"]
    del document["components"]["schemas"]["Reason"]["properties"]["message"]
    assert missing(document) == [
        "decide: query timeout_ms",
        "hold: field key of the body",
        "label: header If-Match",
        "list_put: PUT /v1/lists/{name}/{entry}",
        "decision: receipt",
        "decision: reasons.message",
    ]


def test_nothing_is_in_an_empty_document() -> None:
    found = missing({"paths": {}})
    assert {each.split(":")[0] for each in found} == {*OPERATIONS, "decision"}


def test_the_api_has_all_that_the_client_uses() -> None:
    assert missing(json.loads(DOCUMENT.read_text())) == []
