"""What the rule log holds: one event a line, as JSON."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import orjson

from crossline.basics.times import format_instant, parse_instant_ms
from crossline.rule_registry.sources.origin import Origin

SCHEMA_VERSION = 1

EventKind = Literal[
    "started",
    "published",
    "status_changed",
    "ended",
    "refused",
    "absent",
    "list_changed",
    "table_changed",
    "without_past",
    "unscored",
    "tripped",
    "waiting",
    "released",
    "held",
    "policy_changed",
]
KINDS: tuple[str, ...] = get_args(EventKind)


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """Something that happened to rules at ``at_ms`` of the wall clock.

    ``started``: the pipeline's first start; the rules before it were there then. ``published``: a new version; ``body``
    is the whole rule, ``digest`` that of its body. ``status_changed``: the version goes on under another status. Both
    hold from ``effective_from_ms`` on the ingest clock, None for the beginning. ``ended``: the version judges nothing
    from then on, since the next one reads another stream. ``refused``: a file was not loaded;
    ``text`` is the report, ``digest`` that of the file. ``absent``: a rule stands in no file any more, and stays live.
    ``list_changed``: a named list has another content, that of the file with ``digest``, which is kept beside the log.
    It holds from ``begins_ms`` on the ingest clock of each stream, None (or a stream that is not there) for the
    beginning. ``table_changed``: a table has another content, that of ``files``, digests by name, kept likewise; its
    ``digest`` is that of all of them. ``without_past``: rules begin without their past; ``text`` names them.
    ``unscored``: a model did not score records, which its rule did not judge; once for each rule version in a run,
    ``text`` has the reason. ``tripped``: the version goes on as shadow from ``effective_from_ms`` on, though its file
    has another status: ``who``, which is the breaker, found ``count`` alerts where its bound allows fewer. ``waiting``:
    a version needs approval. ``released``: alerts of the rule that came before ``effective_from_ms`` hold ``key`` no
    more, because of ``text``. ``held``: a manual hold: records with ``key`` take ``action``, from ``begins_ms`` on the
    ingest clock of each stream that is there, until ``until_ms``, because of ``text``; it is known as ``hold_id``, and
    where it has a ``rule_id`` it holds as that version does. A ``released`` with a ``hold_id`` is of that one alone.
    ``policy_changed``: the pipeline started with another policy, which ``body`` is, of that ``version`` and ``digest``.

    ``source`` is the file's name in the folder, or the key in the topic; ``line`` counts from 1. What happened to a
    list has its ``list_name``, to a table its ``table_name``. What was published in a topic has ``who`` published it on
    which ``host``, ``sent_ms`` by the topic's clock, in the message at ``place``; ``approved_by`` another one, in a
    message of ``approved_ms``, by the ``proof`` of these digests, of rule, data and result.
    """

    event: EventKind
    at_ms: int
    rule_id: str | None = None
    version: int | None = None
    status: str | None = None
    effective_from_ms: int | None = None
    source: str | None = None
    line: int | None = None
    digest: str | None = None
    text: str | None = None
    body: dict[str, Any] | None = None
    list_name: str | None = None
    begins_ms: dict[str, int | None] | None = None
    table_name: str | None = None
    files: dict[str, str] | None = None
    who: str | None = None
    count: int | None = None
    host: str | None = None
    sent_ms: int | None = None
    place: str | None = None
    approved_by: str | None = None
    approved_ms: int | None = None
    key: dict[str, str] | None = None
    hold_id: str | None = None
    action: str | None = None
    until_ms: int | None = None
    proof: dict[str, str] | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values; absent ones are left out, except that an effective time of null is the beginning."""
        values: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "event": self.event,
            "at": format_instant(self.at_ms),
        }
        for name in _OPTIONAL:
            value = getattr(self, name)
            if value is not None or (name == "effective_from_ms" and self.event in _WITH_EFFECT):
                values[name] = value
        return values

    def to_line(self) -> bytes:
        """As a line of the log, with its end."""
        return orjson.dumps(self.as_dict(), option=orjson.OPT_APPEND_NEWLINE)


_WITH_EFFECT = {"published", "status_changed", "ended", "tripped", "released"}
_OPTIONAL = tuple(field.name for field in fields(RuleEvent))[2:]


def event_from_line(line: bytes) -> RuleEvent:
    """Inverse of ``RuleEvent.to_line``. Raises ValueError where the line is no event of this version."""
    values = orjson.loads(line)
    if not isinstance(values, dict) or values.get("event") not in KINDS or not isinstance(values.get("at"), str):
        raise ValueError("not an event of a rule log")
    if values.get("schema_version") != SCHEMA_VERSION:
        raise ValueError(f"schema_version {values.get('schema_version')}; this crossline reads {SCHEMA_VERSION}")
    optional = {name: values[name] for name in _OPTIONAL if name in values}
    return RuleEvent(event=values["event"], at_ms=parse_instant_ms(values["at"]), **optional)


def published_by(event: RuleEvent, origin: Origin) -> RuleEvent:
    """``event``, with who asked for what it is about."""
    return replace(event, who=origin.who, host=origin.host, sent_ms=origin.at_ms, place=origin.place)
