"""The requests that the client makes, as plain values: what ``OPERATIONS`` names is all that it uses of the API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

BATCH_MAX = 500
PAGE_MAX = 500

Record = Mapping[str, Any] | bytes
When = datetime | str


@dataclass(frozen=True, slots=True)
class Operation:
    """A use of the API: ``query`` and ``body`` name what the client may send; ``{…}`` in ``path`` is a segment."""

    method: str
    path: str
    query: tuple[str, ...] = ()
    body: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


_KEYED = ("Idempotency-Key",)
_CHANGES = (*_KEYED, "If-Match")
OPERATIONS = {
    "decide": Operation("POST", "/v1/decisions/{stream}", ("mode", "timeout_ms", "dry_run")),
    "decide_many": Operation("POST", "/v1/decisions/{stream}:batch", ("mode", "timeout_ms"), ("records",)),
    "decision": Operation("GET", "/v1/decisions/{id}"),
    "decisions": Operation("GET", "/v1/decisions", ("record_id",)),
    "receipt": Operation("GET", "/v1/decisions/{id}/receipt"),
    "alerts": Operation(
        "GET", "/v1/alerts", ("rule_id", "severity", "status", "from", "to", "q", "limit", "cursor", "key.*")
    ),
    "alert": Operation("GET", "/v1/alerts/{id}"),
    "alert_records": Operation("GET", "/v1/alerts/{id}/records"),
    "events": Operation("GET", "/v1/events", ("kinds", "key.*"), headers=("Last-Event-ID",)),
    "entity": Operation("GET", "/v1/entities/{field}/{value}"),
    "holds": Operation("GET", "/v1/holds", ("key.*",)),
    "hold": Operation(
        "POST", "/v1/holds", body=("rule_id", "key", "action", "until", "reason", "stream"), headers=_KEYED
    ),
    "release": Operation("DELETE", "/v1/holds/{id}", body=("reason",), headers=_CHANGES),
    "label": Operation(
        "PUT", "/v1/labels/{stream}/{record_id}", body=("is_fraud", "known_at", "reason"), headers=_CHANGES
    ),
    "list_put": Operation("PUT", "/v1/lists/{name}/{entry}", body=("until", "value"), headers=_CHANGES),
    "list_delete": Operation("DELETE", "/v1/lists/{name}/{entry}", headers=_CHANGES),
    "rules": Operation("GET", "/v1/rules"),
    "rule_versions": Operation("GET", "/v1/rules/{id}/versions"),
    "rules_check": Operation("POST", "/v1/rules:check"),
    "rules_test": Operation("POST", "/v1/rules:test", headers=_KEYED),
    "rules_backtest": Operation("POST", "/v1/rules:backtest", headers=_KEYED),
    "rules_publish": Operation("POST", "/v1/rules:publish", headers=_KEYED),
    "rules_approve": Operation("POST", "/v1/rules:approve", headers=_CHANGES),
    "rule_set_status": Operation("POST", "/v1/rules/{id}:set-status", headers=_CHANGES),
    "rule_set_share": Operation("POST", "/v1/rules/{id}:set-share", headers=_CHANGES),
    "job": Operation("GET", "/v1/jobs/{id}"),
    "job_cancel": Operation("DELETE", "/v1/jobs/{id}"),
}


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One request. Any may be sent again after a broken connection: ids and idempotency keys make it count once."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def call(
    name: str,
    segments: Sequence[str] = (),
    *,
    query: Mapping[str, Any] | None = None,
    body: Mapping[str, Any] | bytes | None = None,
    if_match: str | None = None,
) -> ApiCall:
    """The call of an operation; what is None in ``query`` and ``body`` is left out.

    A write bears an idempotency key of its own, so that it counts once however often it is sent.
    """
    operation = OPERATIONS[name]
    headers = {"Idempotency-Key": str(uuid.uuid4())} if "Idempotency-Key" in operation.headers else {}
    if if_match is not None:
        headers["If-Match"] = if_match
    content = None
    if body is not None:
        content = body if isinstance(body, bytes) else encoded({k: v for k, v in body.items() if v is not None})
    asked = {each: str(value) for each, value in (query or {}).items() if value is not None}
    return ApiCall(operation.method, filled(operation.path, segments), asked, content, headers)


def filled(path: str, segments: Sequence[str]) -> str:
    """``path`` with its ``{…}`` filled in, in their order; raises ValueError where one would lead elsewhere."""
    left = list(segments)
    parts = path.split("{")
    made = parts[0]
    for part in parts[1:]:
        text = left.pop(0)
        if not isinstance(text, str) or text in {"", ".", ".."}:
            raise ValueError(f"found {text!r} as a part of the address; expected a text that is not empty, '.' or '..'")
        made += quote(text, safe="") + part.partition("}")[2]
    return made


def encoded(body: Any) -> bytes:
    """Compact JSON; raises ValueError for what JSON has not (NaN), TypeError for a value that is none of its kinds."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_as_text)
    return text.encode()


def record_json(record: Record) -> bytes:
    """A record as JSON: as it is, where it is JSON already."""
    if isinstance(record, bytes | bytearray | memoryview):
        return bytes(record)
    if not isinstance(record, Mapping):
        raise TypeError(f"a record is a mapping, or its JSON as bytes; found {type(record).__name__}")
    return encoded(dict(record))


def batch_json(records: Iterable[bytes]) -> bytes:
    """The body of a batch."""
    return b'{"records":[' + b",".join(records) + b"]}"


def instant_text(when: When | None) -> str | None:
    """RFC 3339 in UTC with milliseconds; a text is left as it is. Raises ValueError for an instant without a zone."""
    if when is None or isinstance(when, str):
        return when
    if when.tzinfo is None:
        raise ValueError(f"{when} has no time zone; expected one, such as datetime.now(UTC)")
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def key_query(key: Mapping[str, str] | None) -> dict[str, str]:
    """``key.FIELD=value`` of each part of a key."""
    return {f"key.{name}": value for name, value in (key or {}).items()}


def _as_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON; expected text, number, boolean, list or mapping")
