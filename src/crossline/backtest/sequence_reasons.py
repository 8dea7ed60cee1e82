"""Reasons that a trial gives for sequence rules: how far a match got, and which step is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.evaluation import lookup
from crossline.programs.program import AbsencePredicate, SequencePredicate

Alert = Mapping[str, Any]


def steps_text(verdict: SequencePredicate) -> str:
    """``declined (3 times), approved``."""
    return ", ".join(step.name + (f" ({step.times} times)" if step.times > 1 else "") for step in verdict.steps)


def progress_text(verdict: SequencePredicate, probe: Alert) -> str:
    """The progress of the partial match at the record of ``probe``: ``2 of 4 records: declined n0, n1``."""
    count, names = probe["evidence"]["count"], verdict.names
    found = "; ".join(f"{each['name']} {', '.join(each['record_ids'])}" for each in probe["evidence"]["steps"])
    missing = f"; {names[count]} comes next" if count < len(names) else ""
    return f"{count} of {len(names)} records: {found}{missing}"


def step_reasons(
    verdict: SequencePredicate, fields: Mapping[str, Any], lists: Mapping[str, Sequence[Any]], earlier: Sequence[Alert]
) -> Iterator[str]:
    """Why a record of the rule advances no match. ``earlier``: the probes of its key before it."""
    met = [step.name for step in verdict.steps if step.feed.condition.holds(fields, lists)]
    if not met:
        conditions = {step.name: step.feed.condition for step in verdict.steps}
        read = sorted({name for each in conditions.values() for name in each.fields()})
        values = ", ".join(f"{name} {_shown(lookup(fields, name))}" for name in read)
        wanted = "; ".join(f"{name}: {each.text}" for name, each in conditions.items())
        yield f"found {values}; expected a record of a step ({wanted})"
        return
    text = f"it is a record of step {' and '.join(dict.fromkeys(met))}, and advances no match"
    yield f"{text}; before it there were {progress_text(verdict, earlier[-1])}" if earlier else text


def lists_named(verdict: SequencePredicate | AbsencePredicate) -> tuple[str, ...]:
    """The lists that the conditions of ``verdict`` name."""
    conditions: tuple[Condition, ...] = tuple(feed.condition for feed in verdict.feeds)
    return tuple(dict.fromkeys(name for each in conditions for name in each.lists()))


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
