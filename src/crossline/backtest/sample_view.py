"""Records of a sample as rules see them: with their ingest times, and the fields of tables."""

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
    """The ingest times of records, as they are taken in: a stream is one log, whose clock goes on."""

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
    """A figure or field for a sentence; whole numbers with thousands marked, long ones rounded."""
    if value is None:
        return "nothing"
    return number(value) if isinstance(value, int) and not isinstance(value, bool) else figure(value)


def worded_rule(rule: Rule) -> PredicateRule | None:
    """The rule, where it says in words what its formula asks, since nobody wrote that."""
    return rule if isinstance(rule, PredicateRule) and rule.fires_where() is not None else None


def figures_text(rule: Rule, read: Mapping[str, Any]) -> str:
    """What a formula read: ``tries 2, silent 98 s``; fields and figures that nobody has are ``nothing``."""
    timed = _timed(rule)
    said = {name: rounded_duration(each) if name in timed and each is not None else None for name, each in read.items()}
    return ", ".join(f"{name} {said[name] or shown_value(value)}" for name, value in read.items())


def duration_text(rule: Rule, part: Node, value: float) -> str | None:
    """``value`` as a time, where ``part`` compares a figure of one; else None."""
    return (
        rounded_duration(value) if any(isinstance(n, Name) and n.name in _timed(rule) for n in children(part)) else None
    )


def _timed(rule: Rule) -> set[str]:
    figures = rule.figures_of() if isinstance(rule, PredicateRule) else {}
    return {name for name, each in figures.items() if declared(each.aggregate).in_ms}


def with_fields(snapshot: PlanSnapshot, records: Records, ingest_ms: I64) -> Records:
    """The same, ingested then, with the fields of the tables that rules of ``snapshot`` read."""
    spec = snapshot.streams[records.stream]
    timed = with_headers(spec, replace(records, ingest_ms=ingest_ms))
    return joined(spec, snapshot.joins(records.stream), timed)
