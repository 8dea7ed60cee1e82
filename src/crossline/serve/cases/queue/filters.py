"""Which cases a queue shows, and in what order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self, get_args

from crossline.basics.texts.problems import nearest, one_of, shown
from crossline.rules.policy.words import ACTIONS, SEVERITIES
from crossline.serve.cases import checks
from crossline.serve.cases.values import STATES, NotTakenError

View = Literal["open", "unassigned", "mine", "snoozed", "escalated", "resolved", "all"]
VIEWS: tuple[View, ...] = get_args(View)
Sort = Literal["newest", "money", "severity"]
SORTS: tuple[Sort, ...] = get_args(Sort)
SEARCH_MAX = 200


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Cases that meet all that is given.

    ``view``: ``open`` is what is neither resolved, nor snoozed, nor escalated; ``mine`` what is open and assigned, or
    escalated, to the caller. ``severity``: at least that. ``money``: at least so much, in any one currency.
    ``decision``: the gravest on any of its records. ``from_ms``, ``to_ms``: of its latest alert, the end left out.
    ``key``: fields and their values, all of which the case has. ``q``: words, all of which stand in it.
    """

    view: View = "all"
    status: str | None = None
    assignee: str | None = None
    severity: str | None = None
    stream: str | None = None
    rule_id: str | None = None
    decision: str | None = None
    money: float | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    key: Mapping[str, str] = field(default_factory=dict)
    q: str = ""

    def checked(self) -> Self:
        """It, if there can be such cases. Raises NotTakenError."""
        words = {
            "view": (self.view, VIEWS),
            "status": (self.status, STATES),
            "severity": (self.severity, SEVERITIES),
            "decision": (self.decision, ACTIONS),
        }
        for name, (value, known) in words.items():
            if value is not None and value not in known:
                hint = nearest(value, known) if isinstance(value, str) else None
                raise NotTakenError(f"?{name}", shown(value), one_of(known), hint)
        checks.text("?q", self.q, SEARCH_MAX)
        for name in ("assignee", "stream", "rule_id"):
            value = getattr(self, name)
            if value is not None:
                checks.text(f"?{name}", value, checks.ID_MAX)
        checks.about("?key", self.key)
        return self

    def to_json(self) -> dict[str, Any]:
        """What is given of it."""
        default = type(self)()
        names = [each.name for each in fields(self)]
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(default, name)}
