"""How well alerts find what was planted: precision and recall, in all and for each scenario and rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.analysis.detection_quality import rests_on
from crossline.generate.labels import PlantedFraud


@dataclass(frozen=True, slots=True)
class Caught:
    """Of ``planted`` frauds, ``caught`` have at least one alert."""

    planted: int
    caught: int

    @property
    def recall(self) -> float | None:
        """Share of the planted that was caught; None where nothing was planted."""
        return self.caught / self.planted if self.planted else None


@dataclass(frozen=True, slots=True)
class Raised:
    """Of ``alerts``, ``true`` rest on at least one planted record."""

    alerts: int
    true: int

    @property
    def precision(self) -> float | None:
        """Share of the alerts that is true; None where there is none."""
        return self.true / self.alerts if self.alerts else None


@dataclass(frozen=True, slots=True)
class Score:
    """``found`` in all and by scenario, ``raised`` in all and by rule; what was missed and raised in vain."""

    found: Caught
    raised: Raised
    scenarios: dict[str, Caught]
    rules: dict[str, Raised]
    missed: tuple[str, ...]
    false_alerts: tuple[str, ...]


def score(alerts: Iterable[Mapping[str, Any]], labels: Iterable[PlantedFraud]) -> Score:
    """Judge alerts (in the shape of an alert's JSON) against labels.

    An alert is true if its record, or a record of its evidence, was planted. A fraud that is not complete makes alerts
    true but is not asked for in recall.
    """
    labels = list(labels)
    frauds_of: dict[str, set[str]] = {}
    for label in labels:
        for record_id in label.record_ids:
            frauds_of.setdefault(record_id, set()).add(label.fraud_id)
    caught: set[str] = set()
    false_alerts: list[str] = []
    verdicts: dict[str, list[bool]] = {}
    for alert in alerts:
        frauds = set().union(*(frauds_of.get(record_id, set()) for record_id in rests_on(alert)))
        caught |= frauds
        verdicts.setdefault(alert["rule_id"], []).append(bool(frauds))
        if not frauds:
            false_alerts.append(alert["alert_id"])
    asked = [label for label in labels if label.complete]
    return Score(
        found=_caught(asked, caught),
        raised=_raised([verdict for rule in verdicts.values() for verdict in rule]),
        scenarios={
            scenario: _caught([label for label in asked if label.scenario == scenario], caught)
            for scenario in sorted({label.scenario for label in asked})
        },
        rules={rule_id: _raised(verdicts[rule_id]) for rule_id in sorted(verdicts)},
        missed=tuple(label.fraud_id for label in asked if label.fraud_id not in caught),
        false_alerts=tuple(false_alerts),
    )


def _caught(labels: list[PlantedFraud], caught: set[str]) -> Caught:
    return Caught(planted=len(labels), caught=sum(label.fraud_id in caught for label in labels))


def _raised(verdicts: list[bool]) -> Raised:
    return Raised(alerts=len(verdicts), true=sum(verdicts))
