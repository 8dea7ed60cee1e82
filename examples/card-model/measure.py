"""What the rules caught alone, the model alone, and both: of frauds of kinds that were known, and of new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from crossline.analysis.detection_quality import rests_on
from crossline.basics.values import F64
from crossline.generate.labels import PlantedFraud

MODEL = "card_model"
LINES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class Caught:
    """``alerts``, of which ``true`` are of a fraud; of how many ``frauds`` of each kind so many were ``caught``."""

    alerts: int
    true: int
    frauds: dict[str, int]
    caught: dict[str, int]

    @property
    def precision(self) -> float:
        """The share of the alerts that is true."""
        return self.true / self.alerts if self.alerts else 0.0

    def recall(self, kinds: Iterable[str]) -> float:
        """The share of the frauds of ``kinds`` that was caught."""
        kinds = list(kinds)
        return sum(self.caught[kind] for kind in kinds) / max(1, sum(self.frauds[kind] for kind in kinds))


def caught(alerts: Iterable[Mapping[str, Any]], labels: Sequence[PlantedFraud]) -> Caught:
    """Of ``labels`` those that are complete are asked for.

    An alert of a rule is true where it rests on a record of a fraud, and one of the model only where its own record is
    one: the records that it lists are payments of the account in hours, not what it fired for.
    """
    frauds = {record: label.fraud_id for label in labels for record in label.record_ids}
    found: set[str] = set()
    count = true = 0
    for alert in alerts:
        named = {alert["record_id"]} if alert["rule_id"] == MODEL else rests_on(alert)
        mine = {frauds[record] for record in named if record in frauds}
        found |= mine
        count, true = count + 1, true + bool(mine)
    asked = [label for label in labels if label.complete]
    kinds = sorted({label.scenario for label in asked})
    return Caught(
        count,
        true,
        {kind: sum(label.scenario == kind for label in asked) for kind in kinds},
        {kind: sum(label.scenario == kind and label.fraud_id in found for label in asked) for kind in kinds},
    )


def average_precision(scores: F64, fraud: Any) -> float:
    """The area under the curve of precision over recall, record by record; equal scores are one step of it."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(fraud[order])
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    recall, precision = hits[ends] / max(1, hits[-1]), hits[ends] / (ends + 1)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def curve(scores: F64, fraud: Any) -> list[tuple[float, int, float, float]]:
    """For each line: records at or beyond it, the share of them that is of a fraud, the share of those found."""
    rows = []
    for line in LINES:
        beyond = scores >= line
        hits, count = int((beyond & fraud).sum()), int(beyond.sum())
        rows.append((line, count, hits / max(1, count), hits / max(1, int(fraud.sum()))))
    return rows


def report(
    alerts: Sequence[Mapping[str, Any]],
    labels: Sequence[PlantedFraud],
    scored: Mapping[str, float],
    known: Sequence[str],
) -> dict[str, Any]:
    """All figures. ``scored``: the model's score of each record by its id; ``known``: kinds that were trained on."""
    sides = {
        "rules": [alert for alert in alerts if alert["rule_id"] != MODEL],
        "model": [alert for alert in alerts if alert["rule_id"] == MODEL],
        "both": list(alerts),
    }
    scores, ids = np.array([*scored.values()]), np.array([*scored])
    kinds = sorted({label.scenario for label in labels})
    of_kind = {
        kind: np.isin(ids, [record for label in labels if label.scenario == kind for record in label.record_ids])
        for kind in kinds
    }
    anywhere = np.logical_or.reduce([*of_kind.values()])
    areas = {
        kind: average_precision(scores[mine | ~anywhere], mine[mine | ~anywhere]) for kind, mine in of_kind.items()
    }
    told = {side: caught(mine, labels) for side, mine in sides.items()}
    return {
        "known": list(known),
        "sides": {
            side: {
                **asdict(each),
                "precision": each.precision,
                "recall_known": each.recall(kind for kind in each.frauds if kind in known),
                "recall_new": each.recall(kind for kind in each.frauds if kind not in known),
            }
            for side, each in told.items()
        },
        "average_precision": {**areas, "all": average_precision(scores, anywhere)},
        "curve": curve(scores, anywhere),
    }


def as_text(found: Mapping[str, Any]) -> str:
    """The report as tables in Markdown."""
    sides, areas = found["sides"], found["average_precision"]
    kinds = sorted(sides["both"]["frauds"], key=lambda kind: (kind not in found["known"], kind))
    lines = ["| | rules alone | model alone | both |", "|---|---|---|---|"]
    lines.append(_row("alerts", [f"{each['alerts']:,}" for each in sides.values()]))
    lines.append(_row("of no fraud", [f"{each['alerts'] - each['true']:,}" for each in sides.values()]))
    lines.append(_row("precision", [f"{each['precision']:.3f}" for each in sides.values()]))
    lines.append(_row("recall, known kinds", [f"{each['recall_known']:.3f}" for each in sides.values()]))
    lines.append(_row("recall, new kinds", [f"{each['recall_new']:.3f}" for each in sides.values()]))
    for kind in kinds:
        new = "" if kind in found["known"] else " (new)"
        lines.append(_row(f"{kind}{new}", [f"{e['caught'][kind]} of {e['frauds'][kind]}" for e in sides.values()]))
    lines += ["", "| records beyond the line | how many | precision | recall |", "|---|---|---|---|"]
    lines += [_row(str(line), [f"{count:,}", f"{p:.3f}", f"{r:.3f}"]) for line, count, p, r in found["curve"]]
    told = ", ".join(f"{kind} {areas[kind]:.3f}" for kind in [*kinds, "all"])
    return "\n".join([*lines, "", f"Area under the curve of precision over recall: {told}.", ""])


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
