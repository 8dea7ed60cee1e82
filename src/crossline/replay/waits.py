"""What a trial says of an absence: whether a record waits, and what answered it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from crossline.core.basics.times import format_duration
from crossline.core.conditions.holds import lookup
from crossline.core.figures.program import Absent
from crossline.core.rules.sentence import noun


def wait_of(verdict: Absent) -> str:
    """``status == paid within 10 min``."""
    of = verdict.expect.stream.partition("(")[0]
    other = "" if verdict.expect.stream == verdict.after.stream else noun(of, one=True)
    said = " where ".join(each for each in (other, verdict.expect.condition.text) if each)
    return f"{said or 'any record'} within {format_duration(verdict.within_ms)}"


def waited(verdict: Absent, answered_ms: int | None) -> str:
    """Of a record that waited: what came of it."""
    if answered_ms is None:
        return f"it waited for {wait_of(verdict)}, and nothing came"
    left = format_duration(verdict.within_ms - answered_ms)
    return f"it waited for {wait_of(verdict)}, which came after {format_duration(answered_ms)}, {left} before the end"


def waits(verdict: Absent, fields: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Why nothing is known of a record that the rule looks at: it does not wait, or waits still."""
    condition = verdict.after.condition
    if not condition.holds(fields, lists):
        values = ", ".join(f"{name} {_shown(lookup(fields, name))}" for name in condition.fields())
        yield f"found {values}; expected a record that waits ({condition.text})"
    yield f"it waits for {wait_of(verdict)}; the sample ends before that and the lateness allowed are past"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)
