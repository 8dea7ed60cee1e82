"""Costs of rules on a sample: records, keys, memory and processor time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from crossline.analysis.retention import RetainedRecords, retained_among
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.workbench.sample import Batch, SampleJudge
from crossline.evaluate.output import ShardOutput, StoreDelta
from crossline.rules.ruleset import RuleSet

Bits = npt.NDArray[np.bool_]
TURNS = 5  # runs of each rule set, in turns
NOISE = 2.0  # a cost is significant above so many times its scatter


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """The records of a stream: their count, and the event time of the first and the last."""

    records: int
    first_ms: int
    last_ms: int

    @property
    def seconds(self) -> float:
        """From the first to the last, at least a millisecond."""
        return max(1, self.last_ms - self.first_ms) / 1_000

    @property
    def days(self) -> float:
        """The same in days."""
        return self.seconds / 86_400


def spans(sample: Iterable[Batch]) -> dict[str, RecordSpan]:
    """The span of each stream that has records."""
    found: dict[str, RecordSpan] = {}
    for batch in sample:
        widen(found, batch)
    return found


def widen(found: dict[str, RecordSpan], batch: Batch) -> None:
    """Add the records of a batch to the spans of their streams."""
    for records, _ in batch.inputs:
        if len(records):
            first, last = int(records.event_ms.min()), int(records.event_ms.max())
            old = found.get(records.stream, RecordSpan(0, first, last))
            more = old.records + len(records)
            found[records.stream] = RecordSpan(more, min(old.first_ms, first), max(old.last_ms, last))


def days_of(found: Mapping[str, RecordSpan]) -> float:
    """The days of event time from the first record of all streams to the last; there must be a record."""
    return RecordSpan(
        0, min(each.first_ms for each in found.values()), max(each.last_ms for each in found.values())
    ).days


@dataclass(frozen=True, slots=True)
class StoreCost:
    """The cost of a rule in one state store.

    Attributes:
        kept: The key space.
        records: Records that entered for the rule.
        per_s: The same per second of event time.
        keys: Distinct keys among them.
        held: Records that the store holds in a steady state at the sample's rate.
        bytes_a_record: Bytes per record of the store at the end of the sample, keys and spare capacity included; None
            if it is empty.
    """

    kept: RetainedRecords
    records: int
    per_s: float
    keys: int
    held: float
    bytes_a_record: float | None

    @property
    def bytes(self) -> float | None:
        """The memory in the steady state, shared with the other rules of the store."""
        return None if self.bytes_a_record is None else self.held * self.bytes_a_record


@dataclass(slots=True)
class _Seen:
    """What entered one state store: its rows, and by rule the rows and the hashes of their keys."""

    rows: int = 0
    of_rule: dict[str, int] = field(default_factory=dict)
    keys: dict[str, set[int]] = field(default_factory=dict)


def stores(judged: BacktestSpec, sample: Sequence[Batch]) -> dict[str, list[StoreCost]]:
    """The costs of each rule in its state stores, by rule id. All are judged together; empty streams are skipped."""
    jury = SampleJudge(judged)
    kept = {
        version.rule.rule_id: retained_among(jury.plans, version.rule.reading.name, version.rule.rule_id)
        for version in judged.rules.versions
        if version.rule.reading.name in jury.plans
    }
    seen: dict[str, _Seen] = {}
    for batch in sample:
        _take(jury.judge(batch), kept, seen)
    known = spans(sample)
    return {
        rule_id: [_store(each, rule_id, jury, known[each.base], seen.get(each.state_store, _Seen())) for each in spaces]
        for rule_id, spaces in kept.items()
        if all(each.base in known for each in spaces)
    }


def _take(output: ShardOutput, kept: Mapping[str, Sequence[RetainedRecords]], seen: dict[str, _Seen]) -> None:
    deltas: dict[str, StoreDelta] = {each.state_store: each for each in output.deltas}
    for each in deltas.values():
        seen.setdefault(each.state_store, _Seen()).rows += len(each.delta.batch)
    for rule_id, spaces in kept.items():
        for space in spaces:
            found = deltas.get(space.state_store)
            if found is not None:
                batch = found.delta.batch
                flags = np.unpackbits(batch.filters, axis=1, bitorder="little")
                mine: Bits = np.asarray(flags[:, list(space.filters)].any(axis=1))
                here = seen[space.state_store]
                here.of_rule[rule_id] = here.of_rule.get(rule_id, 0) + int(mine.sum())
                hashes = batch.key_hash[np.unique(batch.key_index[mine])]
                here.keys.setdefault(rule_id, set()).update(hashes.tolist())


def _store(kept: RetainedRecords, rule_id: str, jury: SampleJudge, span: RecordSpan, seen: _Seen) -> StoreCost:
    store = jury.store(kept.state_store)
    size = store.sizes() if store is not None else None
    records = seen.of_rule.get(rule_id, 0)
    reach_s = (kept.remembers_ms + jury.judged.bounds.partition_lag_ms) / 1_000
    return StoreCost(
        kept=kept,
        records=records,
        per_s=records / span.seconds,
        keys=len(seen.keys.get(rule_id, ())),
        held=seen.rows / span.seconds * reach_s,
        bytes_a_record=size.bytes / size.records if size is not None and size.records else None,
    )


@dataclass(frozen=True, slots=True)
class Cost:
    """The processor time that a rule adds to all others, in ns per record of the sample.

    ``noise_ns``: its scatter over the turns. A cost within twice its noise is not significant.
    """

    rule_id: str
    ns: float
    noise_ns: float

    @property
    def significant(self) -> bool:
        """Whether the cost exceeds the noise."""
        return self.ns > NOISE * self.noise_ns


def costs(judged: BacktestSpec, sample: Sequence[Batch], rule_ids: Sequence[str]) -> tuple[float, float, list[Cost]]:
    """The cost of all rules and of no rule, in ns per record; and what each of ``rule_ids`` adds.

    It covers routing, judging and making alerts. Reading and decoding are the same for any rules and are left out. The
    rule sets run in turns, so that a slow phase of the machine affects all of them.
    """
    sets = {"": judged.rules, **{each: _without(judged.rules, each) for each in rule_ids}}
    none = RuleSet()
    records = max(1, sum(map(len, sample)))
    spent: dict[str, list[float]] = {name: [] for name in sets}
    bare: list[float] = []
    _timed(judged, sample)  # warm-up: compiles and loads
    for _ in range(TURNS):
        for name, rules in sets.items():
            spent[name].append(_timed(replace(judged, rules=rules), sample) / records)
        bare.append(_timed(replace(judged, rules=none), sample) / records)
    found = []
    for each in rule_ids:
        more = [whole - less for whole, less in zip(spent[""], spent[each], strict=True)]
        middle = statistics.median(more)
        scatter = statistics.median(abs(one - middle) for one in more)
        found.append(Cost(each, max(0.0, middle), scatter))
    return statistics.median(spent[""]), statistics.median(bare), found


def _without(rules: RuleSet, rule_id: str) -> RuleSet:
    return RuleSet(tuple(version for version in rules.versions if version.rule.rule_id != rule_id))


def _timed(judged: BacktestSpec, sample: Sequence[Batch]) -> float:
    """Processor time of this process, in ns."""
    jury = SampleJudge(judged)
    began = time.process_time_ns()
    for batch in sample:
        jury.alerts(batch)
    return float(time.process_time_ns() - began)
