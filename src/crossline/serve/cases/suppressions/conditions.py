"""Whether a suppression hides an alert."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from crossline.basics.conditions.evaluation import lookup
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import AlertFacts

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda value, several: any(value == each for each in several),
}
OPERATORS = tuple(_COMPARED)


@dataclass(frozen=True, slots=True)
class SuppressionCondition:
    """A field of the alert, such as ``value`` or ``record.merchant_id``, against a value. A missing field fails it."""

    field: str
    operator: str
    value: Any

    def holds(self, alert: Mapping[str, Any]) -> bool:
        """Whether it does for ``alert``."""
        found = lookup(alert, self.field)
        if found is None:
            return False
        try:
            return _COMPARED[self.operator](found, self.value)
        except TypeError:  # a text against a number
            return False


class Hidden:
    """The suppressions in force at a moment, read once in a transaction."""

    def __init__(self, file: CaseFile) -> None:
        found = file.rows("SELECT number, rules, entity, condition, until_ms FROM suppressions WHERE ended_by IS NULL")
        self._known = [
            (
                each["number"],
                frozenset(orjson.loads(each["rules"])),
                orjson.loads(each["entity"]),
                [SuppressionCondition(**one) for one in orjson.loads(each["condition"] or "[]")],
                each["until_ms"],
            )
            for each in found
        ]

    def by(self, alert: Mapping[str, Any], facts: AlertFacts, now_ms: int) -> int | None:
        """The first suppression that hides ``alert`` at ``now_ms``; None: it is shown."""
        for number, rules, entity, conditions, until_ms in self._known:
            if now_ms >= until_ms or (rules and facts.rule_id not in rules):
                continue
            if all(facts.key.get(name) == value for name, value in entity.items()) and all(
                each.holds(alert) for each in conditions
            ):
                return int(number)
        return None
