"""How the objectives of a pipeline stand: what the command, the API and the page tell."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from crossline.core.basics.times import format_instant
from crossline.core.settings.config import PipelineConfig
from crossline.serve.objectives.budget import PAIRS, PERIOD, WINDOWS, Verdict, burns, minutes_left, verdict
from crossline.serve.objectives.declared import Objective, objectives_of
from crossline.serve.objectives.file import MINUTE_MS, MinuteFile

SETTLES_MS = 5_000  # until a minute that is over has been written
_SPANS = frozenset({*WINDOWS.values(), *(minutes for pair in PAIRS for minutes in pair.minutes)})


def report(config: PipelineConfig, now_ms: int) -> dict[str, Any]:
    """All objectives of the pipeline, each over its windows, as JSON; without the section ``slo`` there are none.

    ``as_of``: the end of the last minute that is looked at. Raises RetryableError where the file cannot be read now,
    StateError where it is something else.
    """
    end = (now_ms - SETTLES_MS) // MINUTE_MS
    told: list[dict[str, Any]] = []
    if config.slo is not None:
        file = MinuteFile(Path(config.slo.path), config.name)
        told = [_told(file, each, end) for each in objectives_of(config.slo)]
    return {"pipeline": config.name, "as_of": format_instant(end * MINUTE_MS), "objectives": told}


def _told(file: MinuteFile, objective: Objective, end: int) -> dict[str, Any]:
    counts = file.counts(objective.name, objective.held, end, _SPANS)
    by_span = {span: verdict(each, objective.target, span) for span, each in counts.items()}
    left = minutes_left(by_span[WINDOWS[PERIOD]], by_span[WINDOWS["24h"]])
    return {
        "name": objective.name,
        "label": objective.label,
        "promise": objective.said,
        "unit": objective.unit,
        "target": _number(objective.target),
        "windows": {name: _window(by_span[span]) for name, span in WINDOWS.items()},
        "burning": list(_burning(by_span)),
        "used_up_at": None if left is None else format_instant((end + left) * MINUTE_MS),
    }


def _window(found: Verdict) -> dict[str, Any]:
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


def _burning(by_span: dict[int, Verdict]) -> Iterator[dict[str, Any]]:
    """The pairs of windows that somebody is to be told of."""
    for pair in PAIRS:
        long, short = (by_span[each] for each in pair.minutes)
        if burns(pair, long, short):
            rates = {"long_burn_rate": _number(long.burn_rate), "short_burn_rate": _number(short.burn_rate)}
            windows = {"long": pair.long, "short": pair.short, "factor": _number(pair.factor)}
            yield {"severity": pair.severity, **windows, **rates}


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
