"""Reasons that a trial gives for absence rules: whether a record waits, and what answered it; and for late records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.streams.clocks import clock_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import format_duration
from crossline.ingest.decode.layout import ARROW_TYPES
from crossline.ingest.route.clocks import TIMELESS_MS, column_times
from crossline.programs.program import AbsencePredicate
from crossline.rules.base import Lateness, Rule
from crossline.rules.sentence import noun


def expectation_text(verdict: AbsencePredicate) -> str:
    """``status == paid within 10 min``."""
    of = verdict.expect.stream.partition("(")[0]
    other = "" if verdict.expect.stream == verdict.after.stream else noun(of, one=True)
    text = " where ".join(each for each in (other, verdict.expect.condition.text) if each)
    return f"{text or 'any record'} within {format_duration(verdict.within_ms)}"


def wait_outcome(verdict: AbsencePredicate, answered_ms: int | None) -> str:
    """The outcome of a record that waited, as text; ``answered_ms``: the time until the answer, None: no answer."""
    if answered_ms is None:
        return f"it waited for {expectation_text(verdict)}, and nothing came"
    left = format_duration(verdict.within_ms - answered_ms)
    awaited, after = expectation_text(verdict), format_duration(answered_ms)
    return f"it waited for {awaited}, which came after {after}, {left} before the end"


def wait_reasons(
    verdict: AbsencePredicate, fields: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]
) -> Iterator[str]:
    """Why a record has no outcome: it does not wait, or its deadline lies behind the end of the sample."""
    condition = verdict.after.condition
    if not condition.holds(fields, lists):
        values = ", ".join(f"{name} {_shown(lookup(fields, name))}" for name in condition.fields())
        yield f"found {values}; expected a record that waits ({condition.text})"
    yield f"it waits for {expectation_text(verdict)}; the sample ends before that and the lateness allowed are past"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def lateness_of(
    rule: Rule, spec: StreamSpec, fields: Mapping[str, Any], ingest_ms: int, by_event_ms: int
) -> int | None:
    """The lateness of a record, in ms: its ingest time minus the rule's clock. None: its clock shows no time."""
    clock = clock_of(rule.timestamp_field, spec)
    if clock is None:
        return by_event_ms
    field = spec.clocks[clock].field
    value = pa.array([lookup(fields, field)], ARROW_TYPES[spec.columns[field].kind])
    (at_ms,) = column_times(value, spec, clock).tolist()
    return None if at_ms == TIMELESS_MS else ingest_ms - at_ms


def lateness_reasons(bounds: Lateness, late_ms: int | None) -> Iterator[str]:
    """Why the rule does not judge a record with this lateness."""
    if late_ms is None:
        yield "its clock shows no time between 1970 and 2200"
        return
    for bound_ms in (bounds.allowed_ms, bounds.judged_ms):
        if bound_ms is not None and late_ms > bound_ms:
            yield f"it is late by {format_duration(late_ms)}; the rule judges up to {format_duration(bound_ms)}"
