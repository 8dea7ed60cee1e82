"""What is wrong with a rule, and what is worth knowing of it, in sentences without a full stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from crossline.analysis.health.predictions import PredictionCheck
from crossline.serve.health.values import Parity, RuleHealth

SHARE_MIN = 0.25  # smallest share of another rule worth a sentence
_TIMES = "\N{MULTIPLICATION SIGN}"
NAMES = {"alerts": "alerts a day", "money": "money a day", "precision": "precision"}


@dataclass(frozen=True, slots=True)
class HealthNote:
    """``what``: one of ``WRONG``, or ``met``, ``cooldown`` and ``hidden``, which are only worth knowing."""

    what: str
    text: str


def notes_of(health: RuleHealth) -> tuple[HealthNote, ...]:
    """The gravest first."""
    return tuple(_notes(health))


def _notes(health: RuleHealth) -> Iterator[HealthNote]:
    state = health.rhythm
    if state.state == "silent":
        yield HealthNote("silent", f"Silent for {state.days} {'day' if state.days == 1 else 'days'}")
    if state.state == "floods":
        since = "" if not state.days else f" since {_day(health.first_day + len(health.days) - 1 - state.days)}"
        than = "predicted" if health.due_by == "backtest" else "usual"
        yield HealthNote(
            "floods", f"Floods{since}" + (f", {state.times:.0f} \N{MULTIPLICATION SIGN} {than}" if state.times else "")
        )
    for each in health.held:
        if each.beyond:
            text = prediction_text(each)
            yield HealthNote(each.figure, text[0].upper() + text[1:])
    if health.parity is not None and not health.parity.same:
        yield from _parity_notes(health.parity)
    if health.drift is not None and health.drift.shifted:
        before, now = health.drift.median_before, health.drift.median_now
        ratio = f"{now / before:.1f} {_TIMES} last week" if before > 0 else f"{now:.3g}, {before:.3g} last week"
        yield HealthNote("drift", f"Drift: figure {ratio}")
    if health.held_back >= SHARE_MIN:
        yield HealthNote("cooldown", f"Its cooldown holds back {percent(health.held_back)} of its alerts")
    for other in health.met:
        if other.cooled >= SHARE_MIN:
            yield HealthNote("met", f"Starved by {other.rule_id} in its cooldown, {percent(other.cooled)}")
        elif other.led >= SHARE_MIN:
            yield HealthNote("met", f"Starved by {other.rule_id}, {percent(other.led)}")
        elif other.records >= SHARE_MIN:
            yield HealthNote("met", f"{percent(other.records)} also {other.rule_id}")
    if health.hidden >= SHARE_MIN:
        yield HealthNote("hidden", f"{percent(health.hidden)} hidden by suppressions")


def percent(share: float) -> str:
    """``38 %``."""
    return f"{100 * share:.0f} %"


def parity_text(health: RuleHealth) -> str:
    """``same``, ``2 differ``, or why parity is unknown."""
    found = health.parity
    if found is None:
        return "not there"
    if found.differing:
        return _differ(found.differing)
    return "same" if found.any_compared else "no answers"


def _parity_notes(found: Parity) -> Iterator[HealthNote]:
    if found.differ or found.decisions:
        yield HealthNote("parity", f"API and stream: {_differ(found.differ + found.decisions)}")
    if found.lake is not None and found.lake.differ:
        yield HealthNote("parity", f"Lake and stream: {_differ(found.lake.differ)}")
    if found.lake is not None and found.lake.answered_differ:
        yield HealthNote("parity", f"Receipts and stream, by the lake: {_differ(found.lake.answered_differ)}")


def _differ(count: int) -> str:
    return f"{count} {'differs' if count == 1 else 'differ'}"


def prediction_text(held: PredictionCheck) -> str:
    """``alerts a day: 9.3, predicted 0 to 4.1``."""
    came = "nothing yet" if held.came is None else figure_text(held.came, held.figure)
    low, high = (figure_text(each, held.figure) for each in (held.low, held.high))
    return f"{NAMES[held.figure]}: {came}, predicted {low} to {high}"


def figure_text(value: float, figure: str) -> str:
    """A figure as text."""
    if figure == "precision":
        return f"{value:.2f}"
    return f"{value:,.2f}" if figure == "money" else f"{value:,.1f}".removesuffix(".0")


def _day(day: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return f"{at.day} {at:%b}"
