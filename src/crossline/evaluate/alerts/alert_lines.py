"""Alerts of a batch as lines of JSON, which are read only where somebody looks into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from crossline.evaluate.alerts.alert_json import read_alert


class AlertLines(Sequence[Mapping[str, Any]]):
    """Alerts as values, made of ``lines`` at the first look.

    Args:
        lines: Each alert as JSON.
        rule_ids: The rule of each.

    Example:
        >>> alerts = AlertLines([b'{"rule_id":"r","value":3}'], ["r"])
        >>> len(alerts), alerts[0]["value"]
        (1, 3)
    """

    def __init__(self, lines: Sequence[bytes], rule_ids: Sequence[str]) -> None:
        self.lines, self.rule_ids = lines, rule_ids
        self._read: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, at: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if self._read is None:
            self._read = [read_alert(line) for line in self.lines]
        return self._read[at]


def rule_ids(alerts: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """The rule of each alert, without a look into lines."""
    return alerts.rule_ids if isinstance(alerts, AlertLines) else [alert["rule_id"] for alert in alerts]
