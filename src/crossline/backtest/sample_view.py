"""Records of a sample as rules see them, with ingest times and table fields; and values as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crossline.basics.formula.tree import Name, Node, children
from crossline.basics.times import rounded_duration
from crossline.basics.values import I64, Records
from crossline.ingest.enrich.headers import with_headers
from crossline.ingest.enrich.join import joined
from crossline.programs.registry import declared
from crossline.rules.base import Rule
from crossline.rules.predicate_rule import PredicateRule
from crossline.rules.sentence import figure, number
from crossline.runtime.snapshot.snapshot import PlanSnapshot


@dataclass(slots=True)
class IngestClocks:
    """Assigns ingest times to records in the order of their log: the highest event time of the stream so far."""

    highest_ms: dict[str, int] = field(default_factory=dict)  # event time so far, by stream

    def of(self, records: Records) -> I64:
        """The ingest time of each."""
        if records.ingest_ms is not None or not len(records):
            return records.event_ms if records.ingest_ms is None else records.ingest_ms
        before_ms = self.highest_ms.get(records.stream, int(records.event_ms[0]))
        ingest_ms: I64 = np.maximum.accumulate(np.maximum(records.event_ms, before_ms))
        self.highest_ms[records.stream] = int(ingest_ms[-1])
        return ingest_ms


def shown_value(value: Any) -> str:
    """A figure or field as text: whole numbers with thousands separators, long fractions rounded."""
    if value is None:
        return "nothing"
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else figure(value)


def worded_rule(rule: Rule) -> PredicateRule | None:
    """The rule, if it words its own formula, because the formula is derived and not written by the user; else None."""
    return rule if isinstance(rule, PredicateRule) and rule.fires_where() is not None else None


def figures_text(rule: Rule, read: Mapping[str, Any]) -> str:
    """The values that a formula read: ``tries 2, silent 98 s``; missing ones are ``nothing``."""
    timed = _timed(rule)
    body = {name: rounded_duration(each) if name in timed and each is not None else None for name, each in read.items()}
    return ", ".join(f"{name} {body[name] or shown_value(value)}" for name, value in read.items())


def duration_text(rule: Rule, part: Node, value: float) -> str | None:
    """``value`` as a duration, if ``part`` compares a figure that is a duration; else None."""
    return (
        rounded_duration(value) if any(isinstance(n, Name) and n.name in _timed(rule) for n in children(part)) else None
    )


def _timed(rule: Rule) -> set[str]:
    figures = rule.figures_of() if isinstance(rule, PredicateRule) else {}
    return {name for name, each in figures.items() if declared(each.aggregate).in_ms}


def with_fields(snapshot: PlanSnapshot, records: Records, ingest_ms: I64) -> Records:
    """``records`` with these ingest times and the fields of the tables that rules of ``snapshot`` read."""
    spec = snapshot.streams[records.stream]
    timed = with_headers(spec, replace(records, ingest_ms=ingest_ms))
    return joined(spec, snapshot.joins(records.stream), timed)
