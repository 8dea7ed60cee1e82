"""Arguments and results of the store of labels and cases: plain values, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, Self, get_args

from crossline.basics.errors import UsageError
from crossline.basics.times import instant_text

CaseState = Literal["open", "acknowledged", "escalated", "resolved", "snoozed", "merged"]
EventKind = Literal["created", "changed", "note", "undone"]

STATES: tuple[CaseState, ...] = get_args(CaseState)
# A case that is resolved is opened again before anything else becomes of it; one that was merged stays so. What is
# snoozed comes back by itself, and only an act snoozes it.
NEXT_STATES: Mapping[CaseState, tuple[CaseState, ...]] = {
    "open": ("acknowledged", "escalated", "resolved"),
    "acknowledged": ("escalated", "resolved"),
    "escalated": ("acknowledged", "resolved"),
    "resolved": ("open",),
    "snoozed": ("open", "acknowledged", "escalated", "resolved"),
    "merged": (),
}


class Unset(Enum):
    """What a change leaves as it is."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a record. ``version``: how many labels the record has had, with this one.

    ``known_ms``: when it became known that it was fraud or not, such as the day of a chargeback; ``at_ms``: when the
    label was given. ``case_id``: the case on whose resolving it was given.
    """

    stream: str
    record_id: str
    is_fraud: bool
    known_ms: int
    reason: str
    who: str
    at_ms: int
    version: int
    case_id: str | None = None
    withdrawn: bool = False

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        return {
            "stream": self.stream,
            "record_id": self.record_id,
            "is_fraud": self.is_fraud,
            "known_at": instant_text(self.known_ms),
            "reason": self.reason,
            "by": self.who,
            "at": instant_text(self.at_ms),
            "version": self.version,
            "case_id": self.case_id,
            **({"withdrawn": True} if self.withdrawn else {}),
        }


@dataclass(frozen=True, slots=True)
class LinkedAlert:
    """An alert of a case, and the record that it is of, where that is known: labels of the case are put on it."""

    alert_id: str
    stream: str | None = None
    record_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        return {"alert_id": self.alert_id, "stream": self.stream, "record_id": self.record_id}


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """The label that the records of a case get when it is resolved. ``known_ms`` None: now."""

    is_fraud: bool
    reason: str = ""
    known_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """A case as it stands. ``version`` counts its changes, from 1, and is what ``If-Match`` is held against.

    ``about``: the key that it is about, as in alerts: field name to value.
    """

    case_id: str
    title: str
    state: CaseState
    alerts: tuple[LinkedAlert, ...]
    assignee: str | None
    version: int
    opened_ms: int
    opened_by: str
    changed_ms: int
    changed_by: str
    about: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        return {
            "case_id": self.case_id,
            "title": self.title,
            "state": self.state,
            "key": dict(self.about),
            "alerts": [each.to_json() for each in self.alerts],
            "assignee": self.assignee,
            "version": self.version,
            "opened_at": instant_text(self.opened_ms),
            "opened_by": self.opened_by,
            "changed_at": instant_text(self.changed_ms),
            "changed_by": self.changed_by,
        }

    def to_row(self) -> dict[str, Any]:
        """As it is stored; ``from_row`` is the inverse."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "alerts"} | {
            "alerts": [each.to_json() for each in self.alerts]
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Inverse of ``to_row``."""
        return cls(**{**row, "alerts": tuple(LinkedAlert(**each) for each in row["alerts"])})


@dataclass(frozen=True, slots=True)
class CaseChange:
    """What is to become of a case; what is left out stays.

    ``assignee`` None: no one. ``link``, ``unlink``: alerts that come and go. ``verdict``: only with ``state`` resolved;
    it becomes the label of every linked record. ``reason`` stands in the event.
    """

    state: CaseState | None = None
    assignee: str | Unset | None = UNSET
    title: str | None = None
    link: tuple[LinkedAlert, ...] = ()
    unlink: tuple[str, ...] = ()
    verdict: CaseVerdict | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CaseEvent:
    """What became of a case, when, by whom. ``before`` and ``after``: what changed, by name; of a note neither.

    ``number``: rises over all cases. ``version``: of the case behind it. ``text``: the note, or the change's reason.
    """

    number: int
    case_id: str
    kind: EventKind
    at_ms: int
    who: str
    text: str
    version: int
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """As the API returns it."""
        return {
            "number": self.number,
            "case_id": self.case_id,
            "kind": self.kind,
            "at": instant_text(self.at_ms),
            "by": self.who,
            "text": self.text,
            "version": self.version,
            "before": dict(self.before),
            "after": dict(self.after),
        }


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """Which cases: those that meet all that is given.

    ``about``: a field of their key, and its value. ``text``: stands in the title, in letters of either case.
    """

    states: tuple[CaseState, ...] = ()
    assignee: str | Unset | None = UNSET
    alert_id: str | None = None
    record: tuple[str, str] | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    about: tuple[str, str] | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class CaseList:
    """Cases, those opened last first. ``next_cursor``: where the next page begins; None at the end."""

    items: tuple[Case, ...]
    next_cursor: str | None


class NoSuchCaseError(UsageError):
    """There is no such case. Of HTTP a 404."""


class ChangedError(UsageError):
    """It was changed meanwhile; ``stands`` is what stands there now, in ``version`` (0: nothing). Of HTTP a 412."""

    def __init__(self, message: str, stands: Case | Label | None) -> None:
        super().__init__(message)
        self.stands = stands
        self.version = 0 if stands is None else stands.version


class KeyReusedError(UsageError):
    """An ``Idempotency-Key`` came again with something else. Of HTTP a 409."""


class NotTakenError(UsageError):
    """The input is not valid. ``pointer``: where in the body of a request it stands. Of HTTP a 422."""

    def __init__(self, pointer: str, found: str, expected: str, hint: str | None = None) -> None:
        super().__init__(f"{pointer}: found {found}; expected {expected}" + (f"; {hint}" if hint else ""))
        self.pointer, self.found, self.expected, self.hint = pointer, found, expected, hint
