"""The hot routes in the OpenAPI file: written by hand, since no model stands behind them."""

from __future__ import annotations

from typing import Any

from crossline.rules.policy.words import ACTIONS
from crossline.serve.app.hot import BATCH_MAX
from crossline.settings.process.serve import TIMEOUT_MS_MAX, TIMEOUT_MS_MIN

_TEXT: dict[str, Any] = {"type": "string"}
_WHOLE: dict[str, Any] = {"type": "integer"}
_RECORD: dict[str, Any] = {
    "type": "object",
    "description": "A record of the stream, as its stream file declares it; GET /v1/version names id and event time.",
}
_REASON: dict[str, Any] = {
    "type": "object",
    "required": ["rule_id", "rule_version", "action", "score", "alert_id", "standing", "message"],
    "properties": {
        "rule_id": _TEXT,
        "rule_version": _WHOLE,
        "action": {"type": "string", "enum": list(ACTIONS)},
        "score": _WHOLE,
        "alert_id": {"type": ["string", "null"]},
        "standing": {
            "type": "boolean",
            "description": "The rule holds, and its alert was raised at an earlier record.",
        },
        "message": _TEXT,
        "held_by": {"description": "The alert whose hold this is."},
    },
}
_FIGURE: dict[str, Any] = {
    "type": "object",
    "description": "The figure of a rule, and its threshold.",
    "properties": {
        "value": {"type": ["number", "null"]},
        "operator": {"type": ["string", "null"]},
        "threshold": {"type": ["number", "null"]},
        "window_start": {"type": ["string", "null"], "format": "date-time"},
        "window_end": {"type": ["string", "null"], "format": "date-time"},
    },
}
_AS_OF: dict[str, Any] = {
    "type": ["object", "null"],
    "description": "The state that was judged on; null where none was.",
    "required": ["batch", "age_ms", "laid_over"],
    "properties": {
        "batch": {"type": "integer", "description": "The last batch that is in it."},
        "age_ms": {"type": "integer", "description": "How old that batch was."},
        "laid_over": {"type": "integer", "description": "Records of this API that were laid over it."},
    },
}
_DECISION: dict[str, Any] = {
    "type": "object",
    "required": ["schema_version", "decision_id", "stream", "record_id", "decision", "answered", "degraded", "receipt"],
    "properties": {
        "schema_version": {"type": "integer", "const": 1},
        "decision_id": _TEXT,
        "stream": _TEXT,
        "record_id": _TEXT,
        "decision": {"type": "string", "enum": list(ACTIONS)},
        "score": _WHOLE,
        "reasons": {"type": "array", "items": _REASON},
        "figures": {"type": "object", "description": "By rule id.", "additionalProperties": _FIGURE},
        "answered": {"type": "string", "enum": ["exact", "peek", "fallback"]},
        "as_of": _AS_OF,
        "degraded": {
            "type": "array",
            "items": {"type": "object", "required": ["part", "why"], "properties": {"part": _TEXT, "why": _TEXT}},
        },
        "policy_version": _WHOLE,
        "rules_digest": {"type": ["string", "null"]},
        "decided_at": {"type": "string", "format": "date-time"},
        "took_ms": {"type": "number"},
        "receipt": {"type": ["string", "null"]},
    },
}


def _query(name: str, schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


_PARAMETERS = [
    {"name": "stream", "in": "path", "required": True, "schema": _TEXT},
    _query("mode", {"type": "string", "enum": ["exact", "peek"]}, "By the pipeline itself, or by a replica at once."),
    _query(
        "timeout_ms",
        {"type": "integer", "minimum": TIMEOUT_MS_MIN, "maximum": TIMEOUT_MS_MAX},
        "Within which it is answered; past it, the policy's fallback answers.",
    ),
    _query("dry_run", {"type": "string", "enum": ["true", "false", "1", "0"]}, "Judged, and not kept."),
]


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": text, "content": {"application/problem+json": {"schema": schema}}}


def _operation(summary: str, body: dict[str, Any], answer: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {
        "tags": ["decisions"],
        "summary": summary,
        "x-crossline-scope": "decide:STREAM",
        "parameters": _PARAMETERS,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "Decided.", "content": {"application/json": {"schema": answer}}},
            "400": _problem("A parameter or the body cannot be read."),
            "401": _problem("No credential, or none that is good."),
            "403": _problem("Not allowed, or not there."),
            "404": _problem("No such stream."),
            "413": _problem("Too large."),
            "429": _problem("Too many requests of this key."),
            **more,
        },
    }


HOT_PATHS: dict[str, dict[str, Any]] = {
    "/v1/decisions/{stream}": {
        "post": _operation(
            "A record in, its decision out",
            _RECORD,
            _DECISION,
            {
                "409": _problem("The id was asked about with another content."),
                "422": _problem("The record does not fit its stream."),
                "503": _problem("The record could not be stored; nothing was decided."),
            },
        )
    },
    "/v1/decisions/{stream}:batch": {
        "post": _operation(
            "Up to 500 records in, a decision or problem of each out",
            {
                "type": "object",
                "required": ["records"],
                "additionalProperties": False,
                "properties": {"records": {"type": "array", "minItems": 1, "maxItems": BATCH_MAX, "items": {}}},
            },
            {"type": "array", "items": {"anyOf": [_DECISION, {"$ref": "#/components/schemas/Problem"}]}},
            {},
        )
    },
}
