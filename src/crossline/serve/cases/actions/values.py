"""What can be done with a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from crossline.basics.texts.problems import one_of, shown
from crossline.serve.cases import checks
from crossline.serve.cases.values import NotTakenError

ActName = Literal["assign", "unassign", "snooze", "escalate", "note", "resolve", "reopen", "merge", "detach", "undo"]
ACT_NAMES: tuple[ActName, ...] = get_args(ActName)
LABELS: Mapping[str, bool] = {"fraud": True, "good": False}
SNOOZE_MAX_MS = 366 * 86_400_000
# What an act asks for, beyond its name; what is not here is refused, and what has True must be there.
_FIELDS: Mapping[str, Mapping[str, bool]] = {
    "assign": {"to": False},
    "unassign": {},
    "snooze": {"until_ms": False, "reason": False},
    "escalate": {"to": True, "reason": False},
    "note": {"text": True},
    "resolve": {"label": False, "reason": False},
    "reopen": {"reason": False},
    "merge": {"case_ids": False},
    "detach": {"alert_id": True},
    "undo": {},
}


@dataclass(frozen=True, slots=True)
class CaseAction:
    """One act. ``to``: a person; ``until_ms``: None of a snooze: until a new alert joins; ``case_ids``: of a merge."""

    act: ActName
    to: str | None = None
    until_ms: int | None = None
    text: str | None = None
    label: str | None = None
    reason: str | None = None
    case_ids: tuple[str, ...] | None = None
    alert_id: str | None = None

    def checked(self, now_ms: int) -> CaseAction:
        """The same, if it is valid. Raises NotTakenError."""
        known = _FIELDS.get(self.act)
        if known is None:
            raise NotTakenError("/act", shown(self.act), one_of(ACT_NAMES))
        for name, most in _TEXTS.items():
            value = getattr(self, name)
            if value is not None and name in known:
                checks.text(f"/{name}", value, most, least=int(name != "reason"))
        for name in self.__slots__:
            value = getattr(self, name)
            if name != "act" and value is not None and name not in known:
                raise NotTakenError(f"/{name}", shown(value), f"none, for the act {self.act}")
            if known.get(name) and value is None:
                raise NotTakenError(f"/{name}", "nothing", f"it, for the act {self.act}")
        if self.label is not None and self.label not in LABELS:
            raise NotTakenError("/label", shown(self.label), one_of(LABELS))
        if self.until_ms is not None and not now_ms < self.until_ms <= now_ms + SNOOZE_MAX_MS:
            raise NotTakenError("/until", "an instant that is over or too far off", "one within the next year")
        return self

    def to_json(self) -> dict[str, Any]:
        """What was asked."""
        found = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name) is not None}
        return found | ({"case_ids": list(self.case_ids)} if self.case_ids is not None else {})


_TEXTS = {
    "to": checks.ID_MAX,
    "text": checks.NOTE_MAX,
    "reason": checks.REASON_MAX,
    "alert_id": checks.ID_MAX,
}
