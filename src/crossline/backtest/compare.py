"""Comparison of the alerts of two rule sets over the same history, per rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.evaluate.alerts.alert_json import read_alert
from crossline.evaluate.alerts.current_alerts import current_states

SAMPLES_MAX = 5


@dataclass(slots=True)
class RuleDifference:
    """The difference of one rule: hits in both sets, hits that appear and hits that disappear, with samples of each."""

    both: int = 0
    appear: int = 0
    disappear: int = 0
    appearing: list[dict[str, Any]] = field(default_factory=list)
    disappearing: list[dict[str, Any]] = field(default_factory=list)


def compare(old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> dict[str, RuleDifference]:
    """Differences by rule id, after corrections.

    Two hits are the same if rule id, key and triggering record are equal. Their rule versions may differ.
    """
    before = {_cause(alert): alert for alert in current_states(old)}
    result: dict[str, RuleDifference] = {}
    seen = set()
    for alert in current_states(new):
        cause = _cause(alert)
        seen.add(cause)
        rule = result.setdefault(alert["rule_id"], RuleDifference())
        if cause in before:
            rule.both += 1
        else:
            rule.appear += 1
            _sample(rule.appearing, alert)
    for cause, alert in before.items():
        if cause not in seen:
            rule = result.setdefault(alert["rule_id"], RuleDifference())
            rule.disappear += 1
            _sample(rule.disappearing, alert)
    return dict(sorted(result.items()))


def read_alerts(path: Path) -> Iterator[dict[str, Any]]:
    """The alerts of a file of JSON lines."""
    with path.open("rb") as file:
        for line in file:
            yield read_alert(line)


def _cause(alert: dict[str, Any]) -> tuple[str, str, str, str]:
    return alert["rule_id"], alert["stream"], orjson.dumps(alert["key"]).decode(), alert["record_id"]


def _sample(samples: list[dict[str, Any]], alert: dict[str, Any]) -> None:
    if len(samples) < SAMPLES_MAX:
        samples.append({name: alert[name] for name in ("alert_id", "record_id", "event_time", "message")})
