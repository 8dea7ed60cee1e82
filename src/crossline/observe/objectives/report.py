"""The status of the objectives of a pipeline, for the command, the API and the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from crossline.basics.times import format_instant
from crossline.observe.objectives.budget import PAIRS, PERIOD, WINDOWS, WindowVerdict, burns, minutes_left, verdict
from crossline.observe.objectives.declaration import Objective, objectives_of
from crossline.observe.objectives.histogram import value_at
from crossline.observe.objectives.minute_file import MINUTE_MS, MinuteFile
from crossline.settings.config import PipelineConfig

SETTLES_MS = 5_000  # until a minute that is over has been written
_SPANS = frozenset({*WINDOWS.values(), *(minutes for pair in PAIRS for minutes in pair.minutes)})


@dataclass(frozen=True, slots=True)
class ObjectiveStatus:
    """How an objective stands: the verdict of each span, and the value at its percentile by window.

    ``values``: in the unit of its limit; None where nothing came, or not all that came was measured.
    """

    objective: Objective
    by_span: Mapping[int, WindowVerdict]
    values: Mapping[str, float | None]

    @property
    def windows(self) -> dict[str, WindowVerdict]:
        """By the names of windows."""
        return {name: self.by_span[span] for name, span in WINDOWS.items()}


def last_minute(now_ms: int) -> int:
    """The end of the last minute that has been written."""
    return (now_ms - SETTLES_MS) // MINUTE_MS


def found_of(file: MinuteFile, objective: Objective, end: int) -> ObjectiveStatus:
    """How it stands at minute ``end``. Raises RetryableError, StateError as ``report``."""
    asked = objective.name, objective.held, end
    counts = file.counts(*asked, _SPANS)
    by_span = {span: verdict(each, objective.target, span) for span, each in counts.items()}
    if objective.limit is None:
        return ObjectiveStatus(objective, by_span, dict.fromkeys(WINDOWS))
    measured, values = file.measured(*asked, WINDOWS.values()), {}
    for name, span in WINDOWS.items():
        whole = int(measured[span].sum()) == counts[span].total
        values[name] = value_at(measured[span], objective.target, float(objective.limit)) if whole else None
    return ObjectiveStatus(objective, by_span, values)


def report(config: PipelineConfig, now_ms: int) -> dict[str, Any]:
    """All objectives of the pipeline, each over its windows, as JSON; without the section ``slo`` there are none.

    ``as_of``: the end of the last minute that is looked at. Raises RetryableError where the file cannot be read now,
    StateError where it is something else.
    """
    end, objectives = last_minute(now_ms), []
    if config.slo is not None:
        file = MinuteFile(Path(config.slo.path), config.name)
        objectives = [_as_json(found_of(file, each, end), end) for each in objectives_of(config.slo)]
    return {"pipeline": config.name, "as_of": format_instant(end * MINUTE_MS), "objectives": objectives}


def _as_json(found: ObjectiveStatus, end: int) -> dict[str, Any]:
    objective, windows = found.objective, found.windows
    left = minutes_left(windows[PERIOD], windows["24h"])
    return {
        "name": objective.name,
        "label": objective.label,
        "promise": objective.promise,
        "unit": objective.unit,
        "target": _number(objective.target),
        "limit": _number(objective.limit),
        "measure": objective.measure,
        "windows": {name: {"value": found.values[name], **_window(each)} for name, each in windows.items()},
        "burning": list(_burning(found.by_span)),
        "used_up_at": None if left is None else format_instant((end + left) * MINUTE_MS),
    }


def _window(found: WindowVerdict) -> dict[str, Any]:
    return {
        "kept": found.kept,
        "share": _number(found.share),
        "good": found.counts.good,
        "total": found.counts.total,
        "known_minutes": found.counts.minutes,
        "unknown_minutes": found.unknown,
        "budget_left": _number(found.budget_left),
        "burn_rate": _number(found.burn_rate),
    }


def _burning(by_span: Mapping[int, WindowVerdict]) -> Iterator[dict[str, Any]]:
    """The pairs of windows that raise an alert."""
    for pair in PAIRS:
        long, short = (by_span[each] for each in pair.minutes)
        if burns(pair, long, short):
            rates = {"long_burn_rate": _number(long.burn_rate), "short_burn_rate": _number(short.burn_rate)}
            windows = {"long": pair.long, "short": pair.short, "factor": _number(pair.factor)}
            yield {"severity": pair.severity, **windows, **rates}


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
