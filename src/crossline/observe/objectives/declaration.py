"""The objectives of a pipeline, out of the section ``slo`` of its file."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from crossline.basics.times import format_duration
from crossline.settings.process.slo import CheckpointObjective, LagObjective, LatencyObjective, SloSettings

ALERT_LATENCY, DECISION_LATENCY, LAG, CHECKPOINT, AVAILABILITY = NAMES = (
    *("alert_latency", "decision_latency", "lag", "checkpoint", "availability"),
)
OF_RUN = frozenset({ALERT_LATENCY, LAG, CHECKPOINT})  # counted by the run; the others by the API
_UNITS = {
    ALERT_LATENCY: "alerts",
    DECISION_LATENCY: "answers",
    LAG: "seconds",
    CHECKPOINT: "minutes",
    AVAILABILITY: "requests",
}
_LABELS = {
    ALERT_LATENCY: "Latency of alerts",
    DECISION_LATENCY: "Latency of decisions",
    LAG: "Lag",
    CHECKPOINT: "Checkpoint's share of time",
    AVAILABILITY: "Availability of the API",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """A promise: of what is counted, at least ``target`` is good.

    ``name``: as in the file. ``unit``: what is counted. ``limit``: the bound of good, in ms or as a share; None:
    nothing but the event itself. ``promise``: all of it as text, such as ``99 % of alerts within 250ms``. ``held``: by
    marks counts made under another limit. ``measure``: what the limit is of: ``ms``, or a
    ``share``; empty where there is none.
    """

    name: str
    label: str
    unit: str
    target: Fraction
    limit: Fraction | None
    promise: str
    held: str
    measure: Literal["ms", "share", ""]


def objectives_of(settings: SloSettings | None) -> tuple[Objective, ...]:
    """Those that the file declares, in the order of ``NAMES``; none without the section."""
    if settings is None:
        return ()
    found = []
    for name in NAMES:
        given = getattr(settings, name)
        if isinstance(given, LatencyObjective):
            limit = Fraction(given.under)
            found.append(_objective_of(name, given.percentile, limit, f"within {format_duration(given.under)}"))
        elif isinstance(given, LagObjective):
            limit = Fraction(given.under)
            found.append(_objective_of(name, given.percent, limit, f"at most {format_duration(given.under)} behind"))
        elif isinstance(given, CheckpointObjective):
            limit = exact(given.share) / 100
            found.append(_objective_of(name, given.percent, limit, f"with at most {given.share:g} % of batch time"))
        elif given is not None:
            found.append(_objective_of(name, given.percent, None, "without a fault"))
    return tuple(found)


def exact(value: float) -> Fraction:
    """The number that a person wrote, not the float nearest to it: 99.9 is 999/10."""
    return Fraction(str(value))


def _objective_of(name: str, percent: float, limit: Fraction | None, how: str) -> Objective:
    text = f"{percent:g} % of {_UNITS[name]} {how}"
    held = "" if limit is None else str(limit)
    measure: Literal["ms", "share", ""] = "" if limit is None else "share" if name == CHECKPOINT else "ms"
    return Objective(name, _LABELS[name], _UNITS[name], exact(percent) / 100, limit, text, held, measure)
