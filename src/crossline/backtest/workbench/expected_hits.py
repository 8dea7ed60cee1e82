"""Expected hits, compared with the alerts: what is missing, and what is unexpected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Alert = Mapping[str, Any]


class ExpectedHit(BaseModel):
    """An expected hit: its record, its rule, and other values of the alert, each optional."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    record: str = Field(min_length=1, description="Id of the record at which the rule fires.")
    rule: str | None = Field(default=None, min_length=1, description="Id of the rule; where there is one only, that.")
    value: int | float | str | None = Field(default=None, description="The value of the alert.")
    key: dict[str, Any] | None = Field(default=None, description="The entity that the alert is about, by its fields.")
    count: int | None = Field(default=None, description="How many records the alert rests on.")
    records: list[str] | None = Field(default=None, description="The ids of these records, in their order.")

    def __str__(self) -> str:
        return f"{self.rule or 'a hit'} at {self.record}"

    def is_at(self, alert: Alert) -> bool:
        """Whether ``alert`` has this rule and this record."""
        return alert["record_id"] == self.record and self.rule in {None, alert["rule_id"]}

    def differs(self, alert: Alert) -> list[str]:
        """The differences between ``alert`` and the expected values."""
        evidence = alert["evidence"]
        given = {"key": alert["key"], "count": evidence["count"], "records": evidence["record_ids"]}
        wanted = {name: getattr(self, name) for name in given if getattr(self, name) is not None}
        found = [
            f"{self}: found {name} {given[name]}, expected {value}"
            for name, value in wanted.items()
            if given[name] != value
        ]
        if self.value is not None and not _same(alert["value"], self.value):
            found.append(f"{self}: found value {alert['value']}, expected {self.value}")
        return found


def expected_hits(hits: Iterable[str | Mapping[str, Any] | ExpectedHit]) -> list[ExpectedHit]:
    """Hits from the id of a record or a mapping each. Raises pydantic's ValidationError."""
    return [
        each
        if isinstance(each, ExpectedHit)
        else ExpectedHit.model_validate({"record": each} if isinstance(each, str) else dict(each))
        for each in hits
    ]


def differences(expected: Sequence[ExpectedHit], alerts: Sequence[Alert]) -> list[str]:
    """Missing hits, unexpected alerts and different values; empty if all is as expected."""
    left, found = list(alerts), []
    for hit in expected:
        mine = [alert for alert in left if hit.is_at(alert)]
        if not mine:
            found.append(f"{hit}: found no such hit")
            continue
        best = min(mine, key=lambda alert: len(hit.differs(alert)))
        left.remove(best)
        found += hit.differs(best)
    return found + [f"{alert['rule_id']} at {alert['record_id']}: not expected ({alert['message']})" for alert in left]


def _same(found: Any, wanted: float | str) -> bool:
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return math.isclose(found, wanted, rel_tol=1e-9)
    return bool(found == wanted)
