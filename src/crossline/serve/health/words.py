"""What is wrong with a rule, and what is worth knowing of it, in sentences without a full stop."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from crossline.core.health.kept import Held
from crossline.serve.health.values import RuleHealth

SHARE_MIN = 0.25  # of what is told of other rules
_NAMES = {"alerts": "alerts a day", "money": "money a day", "precision": "precision"}


def notes_of(health: RuleHealth) -> tuple[str, ...]:
    """The gravest first."""
    return tuple(_notes(health))


def _notes(health: RuleHealth) -> Iterator[str]:
    state = health.rhythm
    if state.state == "silent":
        yield f"Silent for {state.days} {'day' if state.days == 1 else 'days'}"
    if state.state == "floods":
        since = "" if not state.days else f" since {_day(health.first_day + len(health.days) - 1 - state.days)}"
        times = (
            f", {state.times:.0f} × {'predicted' if health.due_by == 'backtest' else 'usual'}" if state.times else ""
        )
        yield f"Floods{since}{times}"
    yield from (held_said(each) for each in health.held if each.beyond)
    if health.parity is not None and not health.parity.same:
        yield parity_said(health)
    if health.drift is not None and "drift" in health.wrong:
        before, now = health.drift.median_before, health.drift.median_now
        ratio = f"{now / before:.1f} × last week" if before > 0 else f"{now:.3g}, {before:.3g} last week"
        yield f"Drift: figure {ratio}"
    for each in health.met:
        if each.led >= SHARE_MIN:
            yield f"Starved by {each.rule_id}, {each.led:.0%}: it is decided by that first".replace("%", " %")
        elif each.records >= SHARE_MIN:
            yield f"{each.records:.0%} also {each.rule_id}".replace("%", " %")
    if health.hidden >= SHARE_MIN:
        yield f"{health.hidden:.0%} hidden by suppressions".replace("%", " %")


def parity_said(health: RuleHealth) -> str:
    """``same``, ``2 differ``, or why nothing can be said."""
    found = health.parity
    if found is None:
        return "not there"
    differ = found.differ + found.decisions
    if differ:
        return f"{differ} {'differs' if differ == 1 else 'differ'}"
    return "same" if found.compared else "no answers"


def held_said(held: Held) -> str:
    """``alerts a day: 9.3, predicted 0 to 4.1``."""
    came = "nothing yet" if held.came is None else _number(held.came, held.figure)
    low, high = (_number(each, held.figure) for each in (held.low, held.high))
    return f"{_NAMES[held.figure]}: {came}, predicted {low} to {high}"


def _number(value: float, figure: str) -> str:
    if figure == "precision":
        return f"{value:.2f}"
    return f"{value:,.2f}" if figure == "money" else f"{value:,.1f}".removesuffix(".0")


def _day(day: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return f"{at.day} {at:%b}"
