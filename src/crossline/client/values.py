"""Answers of the API as typed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

Answered = Literal["exact", "peek", "fallback", "unreachable"]
Mode = Literal["exact", "peek"]
ANSWERED = ("exact", "peek", "fallback")
ACTIONS = ("allow", "step_up", "review", "block")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a request: where (a JSON pointer), what was found, what was expected, what to do."""

    pointer: str
    found: str
    expected: str
    hint: str = ""

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Finding:
        """From an item of a problem's ``errors``."""
        return cls(*(str(body.get(name) or "") for name in ("pointer", "found", "expected", "hint")))

    def __str__(self) -> str:
        text = f"{self.pointer or '/'}: found {self.found}; expected {self.expected}"
        return f"{text} ({self.hint})" if self.hint else text


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that holds at the record."""

    rule_id: str
    rule_version: int
    action: str
    score: int
    alert_id: str | None = None
    standing: bool = False
    message: str = ""
    held_by: str | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Reason:
        """From an item of ``reasons``."""
        return cls(
            rule_id=_text(body, "rule_id"),
            rule_version=_whole(body, "rule_version"),
            action=_text(body, "action"),
            score=_whole(body, "score"),
            alert_id=body.get("alert_id"),
            standing=bool(body.get("standing", False)),
            message=str(body.get("message") or ""),
            held_by=body.get("held_by"),
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """What a rule computed of the record's key, and the threshold that it was compared with."""

    value: Any = None
    operator: str | None = None
    threshold: Any = None
    window_start: datetime | None = None
    window_end: datetime | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Figure:
        """From a value of ``figures``."""
        start, end = instant(body.get("window_start")), instant(body.get("window_end"))
        return cls(body.get("value"), body.get("operator"), body.get("threshold"), start, end)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The state that was judged on: after ``batch``, ``age_ms`` ago, and ``laid_over`` records of the API on top."""

    batch: int
    age_ms: int
    laid_over: int = 0

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> AsOf:
        """From ``as_of``."""
        return cls(_whole(body, "batch"), _whole(body, "age_ms"), int(body.get("laid_over") or 0))


@dataclass(frozen=True, slots=True)
class Degraded:
    """A part that could not be judged, such as ``rule:card_burst``, ``replica`` or ``client``, and why."""

    part: str
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a record.

    ``decision``: ``allow``, ``step_up``, ``review`` or ``block``. ``answered``: ``exact`` (by the pipeline), ``peek``
    (by a replica, as of ``as_of``), ``fallback`` (by the policy's fallback; ``degraded`` has the reason) or
    ``unreachable`` (by this client's own fallback; the record may be in the stream). ``figures``: by rule id.
    ``replayed``: the record was answered before, and this is that answer. ``body``: the raw answer.
    """

    decision: str
    answered: Answered
    score: int = 0
    reasons: tuple[Reason, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    degraded: tuple[Degraded, ...] = ()
    as_of: AsOf | None = None
    receipt: str | None = None
    replayed: bool = False
    decision_id: str | None = None
    stream: str | None = None
    record_id: str | None = None
    policy_version: int | None = None
    rules_digest: str | None = None
    decided_at: datetime | None = None
    took_ms: float | None = None
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, body: Any, *, replayed: bool = False) -> Decision:
        """From an answer of the API; raises ValueError where it is none."""
        if not isinstance(body, Mapping):
            raise ValueError(f"found {type(body).__name__}; expected an object with decision and answered")  # noqa: TRY004 - of the answer, not of the caller
        answered, as_of = _text(body, "answered"), body.get("as_of")
        if answered not in ANSWERED:
            raise ValueError(f"answered: found {answered!r}; expected one of {', '.join(ANSWERED)}")
        try:
            return cls(
                decision=_text(body, "decision"),
                answered=answered,  # type: ignore[arg-type]
                score=int(body.get("score") or 0),
                reasons=tuple(map(Reason.from_json, body.get("reasons") or ())),
                figures={name: Figure.from_json(each) for name, each in (body.get("figures") or {}).items()},
                degraded=tuple(
                    Degraded(str(each["part"]), str(each.get("why", ""))) for each in body.get("degraded") or ()
                ),
                as_of=None if as_of is None else AsOf.from_json(as_of),
                receipt=body.get("receipt"),
                replayed=replayed,
                decision_id=body.get("decision_id"),
                stream=body.get("stream"),
                record_id=body.get("record_id"),
                policy_version=body.get("policy_version"),
                rules_digest=body.get("rules_digest"),
                decided_at=instant(body.get("decided_at")),
                took_ms=body.get("took_ms"),
                body=body,
            )
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"a part of the decision has another form: {error}") from None


@dataclass(frozen=True, slots=True)
class Event:
    """A live event: an alert, a correction, a decision or a revision. ``id``: where to go on after it."""

    id: str | None
    kind: str
    data: Any


def instant(text: Any) -> datetime | None:
    """An RFC 3339 instant, in UTC; None of None. Raises ValueError if it is none."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"found {text!r}; expected an instant such as 2026-01-01T00:00:00.000Z")  # noqa: TRY004 - of the answer
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name}: found {found!r}; expected a text")  # noqa: TRY004 - of the answer
    return found


def _whole(body: Mapping[str, Any], name: str) -> int:
    found = body.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise ValueError(f"{name}: found {found!r}; expected a whole number")  # noqa: TRY004 - of the answer
    return found
