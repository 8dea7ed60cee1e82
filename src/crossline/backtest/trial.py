"""Trial of rules on a sample: which alerts they raise, and for one record the verdict of each rule with its reason.

The figure of a rule at a record without an alert comes from a second run with *probes*: the same rules with thresholds
that every figure passes, so that they alert at every record. So the figure is the kernel's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from crossline.backtest.absence_reasons import (
    expectation_text,
    lateness_of,
    lateness_reasons,
    wait_outcome,
    wait_reasons,
)
from crossline.backtest.alert_figures import number_of, read_figures
from crossline.backtest.backtest import BacktestSpec
from crossline.backtest.in_process import outcomes
from crossline.backtest.sample_view import IngestClocks, figures_text, shown_value, with_fields, worded_rule
from crossline.backtest.sequence_reasons import lists_named, progress_text, step_reasons, steps_text
from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.evaluation import lookup
from crossline.basics.conditions.tree import AllOf
from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.formula.naive import evaluate
from crossline.basics.streams.inputs import HIT, rule_of
from crossline.basics.times import format_duration, parse_instant_ms
from crossline.basics.values import Records
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.ingest.enrich.join import take_rows
from crossline.io.sinks.delivery import LateRecord
from crossline.plan.compose import sources_of
from crossline.programs.program import FormulaPredicate, Program
from crossline.programs.program import Verdict as ProgramVerdict
from crossline.rules.base import Rule
from crossline.rules.composition import Sources
from crossline.rules.predicate_rule import PredicateRule
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot

Alert = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A record of the sample: its fields by dotted names, its ingest time, and its lateness (ingest - event time)."""

    fields: Mapping[str, Any]
    ingest_ms: int
    lateness_ms: int


@dataclass(slots=True)
class Trial:
    """The result of a trial.

    Attributes:
        records: The number of records.
        alerts: The alerts, after corrections.
        dead: The dead letters.
        late: The late records.
        found: The searched record, by stream that has one with its id.
        missed: By table, the records without a row in it.
    """

    records: int = 0
    alerts: list[dict[str, Any]] = field(default_factory=list)
    dead: list[DeadLetter] = field(default_factory=list)
    late: list[LateRecord] = field(default_factory=list)
    found: dict[str, SampleRecord] = field(default_factory=dict)
    missed: dict[str, int] = field(default_factory=dict)

    def of(self, rule_id: str) -> list[dict[str, Any]]:
        """The alerts of one rule."""
        return [alert for alert in self.alerts if alert["rule_id"] == rule_id]


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """The verdict of a rule at one record. ``value``: its figure, None if it has none; ``why``: the reason as text."""

    rule_id: str
    version: int
    fired: bool
    value: float | str | None
    line: str | None
    why: str
    alert: Alert | None = None


def as_if_active(rules: Iterable[Rule], *, shares: bool = False) -> RuleSet:
    """The newest version of each rule, active from the beginning, for all keys or, with ``shares``, for its share."""
    newest: dict[str, Rule] = {}
    for rule in rules:
        known = newest.get(rule.rule_id)
        if known is None or rule.version >= known.version:
            newest[rule.rule_id] = rule
    changes = {"status": "active", "effective_from": None, **({} if shares else {"share": None})}
    return RuleSet.from_rules(rule.model_copy(update=changes) for rule in newest.values())


def try_rules(
    judged: BacktestSpec, folder: Path, record_id: str | None = None, keep: Callable[[Alert], bool] | None = None
) -> Trial:
    """Judge the sample.

    Args:
        judged: The rules and the sample.
        folder: For temporary files.
        record_id: The record to search for; None: none.
        keep: Which alerts are kept; None: all. Raises UsageError if an input matches no file.
    """
    trial = Trial()
    search = _Search(record_id, trial.found, judged.snapshot(judged.rules, 1)) if record_id is not None else None
    for outcome in outcomes(judged, folder, search):
        trial.records += outcome.figures["records"]
        trial.alerts += outcome.alerts if keep is None else filter(keep, outcome.alerts)
        trial.dead += outcome.dead
        trial.late += outcome.late
        for table, count in outcome.figures.get("missed", {}).items():
            trial.missed[table] = trial.missed.get(table, 0) + count
    trial.alerts = current_states(trial.alerts)
    return trial


@dataclass(slots=True)
class _Search:
    """Searches the decoded records, which are in the order of their log, for one record."""

    record_id: str
    found: dict[str, SampleRecord]
    snapshot: PlanSnapshot
    clocks: IngestClocks = field(default_factory=IngestClocks)

    def __call__(self, records: Records) -> None:
        stream = records.stream
        if stream in self.found or not len(records):
            return
        ingest_ms = self.clocks.of(records)
        place = records.ids.index(self.record_id).as_py()
        if place >= 0:
            at_ms = int(ingest_ms[place])
            one = with_fields(self.snapshot, take_rows(records, np.array([place])), np.array([at_ms]))
            fields = {name: column[0].as_py() for name, column in one.fields.items()}
            self.found[stream] = SampleRecord(fields, at_ms, at_ms - int(records.event_ms[place]))


def verdicts(judged: BacktestSpec, folder: Path, record_id: str) -> tuple[Trial, list[TrialVerdict]]:
    """The trial, and the verdict of each rule at the record (the first with that id).

    Raises:
        UsageError: the sample has no such record, or an input matches no file.
    """
    trial = try_rules(judged, folder / "rules", record_id)
    if not trial.found and not any(letter.record_id == record_id for letter in trial.dead):
        raise UsageError(f"record {record_id!r} is not in the sample; give the id of a record that is")
    sources = sources_of(judged.rules, judged.history.streams)
    topics = {v.rule.rule_id: v.rule.reading.judged for v in judged.rules.versions}
    _add_hits(trial, record_id, topics, sources)
    namings = {v.rule.rule_id: _namings(_program(judged, sources, v.rule)) for v in judged.rules.versions}
    keep = partial(_of_its_key, trial.found, topics, namings)
    probed = {
        depth: try_rules(replace(judged, probing=depth), folder / f"probes-{depth}", keep=keep)
        for depth in sorted({sources.depth_of(v.rule.reading) for v in judged.rules.versions})
    }
    cases = (
        _Case(judged, v.rule, record_id, trial, probed[sources.depth_of(v.rule.reading)], sources)
        for v in judged.rules.versions
    )
    return trial, [case.verdict() for case in cases]


def _add_hits(trial: Trial, record_id: str, topics: Mapping[str, tuple[str, ...]], sources: Sources) -> None:
    """Add the hits at the record as records of derived streams, for the rules that read them."""
    read = {source for judged in topics.values() for source in judged if rule_of(source) is not None}
    for topic in sorted(read, key=sources.depth):
        alert, record = _at(trial.of(str(rule_of(topic))), record_id), _found(trial.found, topics[str(rule_of(topic))])
        if alert is not None and record is not None:
            body = {
                "value": number_of(alert["value"]),
                "severity": alert["severity"],
                "score": alert["score"],
                "version": alert["rule_version"],
                "shadow": alert["kind"] == "shadow",
            }
            hit = {f"{HIT}.{name}": value for name, value in body.items()}
            hit |= {f"{HIT}.key.{name}": value for name, value in alert["key"].items()}
            own = {name: value for name, value in record.fields.items() if not name.startswith(f"{HIT}.")}
            trial.found[topic] = replace(record, fields={**own, **hit})


@dataclass(frozen=True, slots=True)
class _Case:
    """A rule and a record."""

    judged: BacktestSpec
    rule: Rule
    record_id: str
    trial: Trial
    probed: Trial
    sources: Sources

    def verdict(self) -> TrialVerdict:
        """Whether the rule fired, its figure, and the reason."""
        rule = self.rule
        fired = _at(self.trial.of(rule.rule_id), self.record_id)
        program = _program(self.judged, self.sources, rule)
        if program.verdict is None:
            why = fired["message"] if fired is not None else next(self._reasons())
            return TrialVerdict(rule.rule_id, rule.version, fired is not None, None, None, why, fired)
        probe = _at(self.probed.of(rule.rule_id), self.record_id)
        why = fired["message"] if fired is not None else next(self._reasons_of(program, probe))
        line = _line(worded_rule(rule), program.verdict)
        value = probe["value"] if probe is not None else None
        return TrialVerdict(rule.rule_id, rule.version, fired is not None, value, line, why, fired)

    def _reasons_of(self, program: Program, probe: Alert | None) -> Iterator[str]:
        """Why a rule with state did not fire; ``probe``: the alert with its figure, None if it has none."""
        if probe is not None and program.verdict is not None:
            yield from self._held_back(program, _Sentences(self.rule, worded_rule(self.rule), program.verdict), probe)
        yield from self._reasons()
        found, figure = _found(self.trial.found, self.rule.reading.judged), program.figure
        if found is None:
            return
        record = found.fields
        for name in _missing(_namings(program), record):
            yield f"it has no {name}, by which the rule groups"
        if program.sequence is not None:
            lists = self._lists(lists_named(program.sequence), found)
            yield from step_reasons(program.sequence, record, lists, self._before(found, program))
        if program.absence is not None:
            yield from wait_reasons(program.absence, record, self._lists(lists_named(program.absence), found))
        if figure is not None and figure.column is not None and lookup(record, figure.column) is None:
            yield f"it has no {figure.column}, of which the rule takes the {figure.aggregate}"
        yield "its window has no record to compute the figure from"

    def _reasons(self) -> Iterator[str]:
        """Why a rule skipped the record."""
        judged = self.rule.reading.judged
        found = _found(self.trial.found, judged)
        if found is None:
            for source in judged:
                read = rule_of(source)
                if read is not None and self.sources.base(source) in self.trial.found:
                    yield f"rule {read}, whose hits it reads, did not fire at the record"
            refused = [letter for letter in self.trial.dead if letter.record_id == self.record_id]
            yield from (f"the record is a dead letter: {letter.reason}, {letter.detail}" for letter in refused)
            stream = self.sources.base(judged[0])
            yield f"no record with this id is in stream {stream}, which the rule reads"
            return
        spec = self.sources.of_reading(self.rule.reading)
        late_ms = lateness_of(self.rule, spec, found.fields, found.ingest_ms, found.lateness_ms)
        yield from lateness_reasons(self.rule.lateness(self.judged.defaults), late_ms)
        node = self.rule.filter.node
        for part in map(Condition, node.parts if isinstance(node, AllOf) else (node,)):
            if not part.holds(found.fields, self._lists(part.lists(), found)):
                values = ", ".join(f"{name} {shown_value(lookup(found.fields, name))}" for name in part.fields())
                yield f"found {values}; expected {part.text}"

    def _lists(self, names: Iterable[str], found: SampleRecord) -> dict[str, Any]:
        """Named lists, as of the ingest time of the record."""
        stream = self.sources.base(self.rule.reading.judged[0])
        return {name: self.judged.lists[name].at(stream, found.ingest_ms) for name in names}

    def _before(self, found: SampleRecord, program: Program) -> list[Alert]:
        """The probes of the record's key with an earlier ingest time."""
        keys = _keys(_namings(program), found.fields)
        probes = [each for each in self.probed.of(self.rule.rule_id) if [*each["key"].values()] in keys]
        return [each for each in probes if parse_instant_ms(each["ingest_time"]) < found.ingest_ms]

    def _held_back(self, program: Program, sentences: _Sentences, at: Alert) -> Iterator[str]:
        """Why there is no alert at a record with a figure."""
        rule = self.rule
        if not sentences.holds(at):
            yield sentences.of(at)
            return
        probes = [each for each in self.probed.of(rule.rule_id) if each["key"] == at["key"]]
        earlier = probes[: [each["record_id"] for each in probes].index(at["record_id"])]
        if earlier and sentences.holds(earlier[-1]) and not program.emission.every:
            yield f"{sentences.of(at)}, as {sentences.before(earlier[-1])}: the rule fires where the line is crossed"
        ids = {each["record_id"] for each in earlier}
        alerts = [each for each in self.trial.of(rule.rule_id) if each["key"] == at["key"] and each["record_id"] in ids]
        if alerts:
            yield (
                f"{sentences.of(at)}, within the cooldown of "
                f"{format_duration(program.emission.cooldown_ms)} after the alert at record {alerts[-1]['record_id']}"
            )


def _found(found: Mapping[str, SampleRecord], sources: Iterable[str]) -> SampleRecord | None:
    """The record from the first of ``sources`` that has it."""
    return next((found[source] for source in sources if source in found), None)


def _program(judged: BacktestSpec, sources: Sources, rule: Rule) -> Program:
    return rule.program(sources.of_reading(rule.reading), judged.defaults)


def _namings(program: Program) -> list[tuple[str, ...]]:
    """The key fields of each feed of a rule."""
    others = () if program.verdict is None else program.verdict.feeds
    return list(dict.fromkeys(feed.key_fields for feed in (program.feed, *others)))


def _keys(namings: Iterable[Sequence[str]], record: Mapping[str, Any]) -> list[list[Any]]:
    return [[lookup(record, name) for name in fields] for fields in namings]


def _missing(namings: Sequence[Sequence[str]], record: Mapping[str, Any]) -> list[str]:
    """The key fields that the record lacks; empty if it has a key."""
    lacking = [[name for name in fields if lookup(record, name) is None] for fields in namings]
    return [] if [] in lacking else lacking[0]


def _of_its_key(
    found: Mapping[str, SampleRecord],
    topics: Mapping[str, tuple[str, ...]],
    namings: Mapping[str, list[tuple[str, ...]]],
    alert: Alert,
) -> bool:
    """Whether the alert has a key of the record: other probes are not needed."""
    record = _found(found, topics[alert["rule_id"]])
    return record is not None and [*alert["key"].values()] in _keys(namings[alert["rule_id"]], record.fields)


def _at(alerts: Iterable[Alert], record_id: str) -> Alert | None:
    return next((alert for alert in alerts if alert["record_id"] == record_id), None)


@dataclass(frozen=True, slots=True)
class _Sentences:
    """A predicate at the alerts of probes, as text; ``words``: the rule, if it words its own formula."""

    rule: Rule
    words: PredicateRule | None
    verdict: ProgramVerdict

    def holds(self, alert: Alert) -> bool:
        """Whether the predicate holds at a probe."""
        if (sequence := self.verdict.sequence) is not None:
            return bool(alert["evidence"]["count"] == len(sequence.names))
        if self.verdict.absence is not None:
            return alert["value"] is None
        if (formula := self.verdict.formula) is not None:
            return evaluate(formula.when.root, read_figures(formula, alert)) is True
        line = self.verdict.comparison
        return line is not None and line.met(number_of(alert["value"]))

    def of(self, alert: Alert) -> str:
        """The figures at a probe, and whether the predicate holds."""
        if self.verdict.sequence is not None:
            return progress_text(self.verdict.sequence, alert)
        if self.verdict.absence is not None:
            return wait_outcome(self.verdict.absence, alert["value"])
        held = "" if self.holds(alert) else "not "
        if (formula := self.verdict.formula) is not None:
            found = self._found(formula, alert)
            if self.words is not None:
                return (
                    f"found {found}; it fires where {self.words.fires_where()}"
                    if held
                    else f"{found} is what it asks for"
                )
            return f"{found}: {held}{formula.when.text}"
        return f"{shown_value(alert['value'])} is {held}{_line(None, self.verdict)}"

    def before(self, alert: Alert) -> str:
        """That the predicate held at an earlier probe."""
        formula = self.verdict.formula
        figures = shown_value(alert["value"]) if formula is None else self._found(formula, alert)
        return f"{figures} was at record {alert['record_id']}"

    def _found(self, verdict: FormulaPredicate, alert: Alert) -> str:
        read = read_figures(verdict, alert)
        if self.words is not None:
            return self.words.in_words(number_of(alert["value"]), read)
        return figures_text(self.rule, read)


def _line(words: PredicateRule | None, verdict: ProgramVerdict) -> str:
    if words is not None:
        return str(words.fires_where())
    if verdict.sequence is not None:
        return steps_text(verdict.sequence)
    if verdict.absence is not None:
        return f"no {expectation_text(verdict.absence)}"
    if verdict.formula is not None:
        return verdict.formula.when.text
    line = verdict.comparison
    return "no line" if line is None else f"{line.operator} {shown_value(line.threshold)}"
