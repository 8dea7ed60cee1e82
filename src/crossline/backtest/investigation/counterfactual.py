"""Counterfactuals: the smallest change of each kind that turns the verdict at an alert's record.

The engine judges every change twice: at the reported value, and one step nearer to the present one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.backtest.investigation.earlier_firing import find_earlier_firing
from crossline.backtest.investigation.key_records import KeyRecord, without
from crossline.backtest.investigation.outcome_text import left_out_text, outcome_of_change
from crossline.backtest.investigation.parameters import Kind, Parameter, parameters_of, step_of
from crossline.backtest.investigation.record_changes import Variant, record_fields, records_shifted, records_with
from crossline.backtest.investigation.turning_point import Range, TurningPoint, TurnTest, nearest_turning_point
from crossline.backtest.investigation.variant_runner import BudgetSpentError, VariantRunner
from crossline.backtest.investigation.window_times import clock_ms, window_hints
from crossline.basics.streams.inputs import rule_of
from crossline.rules.base import Rule

FAN = 48  # variants of a rule in one run
LEFT_OUT_MAX = 60
TIMED = {"geo_velocity", "sequence"}


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One change.

    Attributes:
        kind: What kind of change.
        what: As a person names it.
        was: The value as it is; None if there is no value, as for a record.
        turns_at: The smallest change of it with which the verdict is another.
        one_less: One step nearer to ``was``, with which it is not.
        unit: ``ms``, the field, or "".
        then: What happens then, as a sentence without its full stop.
        record_id: The record that is changed or left out.
        field: The field of it.
        sooner: The rule would have fired sooner, in place of not at all.
        body: The rule with the change, where it is one of the rule.
        body_less: The rule one step nearer to what it is.
    """

    kind: Kind
    what: str
    was: float | None
    turns_at: float | None
    one_less: float | None
    unit: str
    then: str
    record_id: str | None = None
    field: str = ""
    sooner: bool = False
    body: Mapping[str, Any] | None = None
    body_less: Mapping[str, Any] | None = None

    @property
    def size(self) -> float:
        """How large the change is, as a share of what is; a record left out is the largest."""
        if self.was is None or self.turns_at is None:
            return float("inf")
        return abs(self.turns_at - self.was) / max(abs(self.was), 1e-9)


@dataclass(frozen=True, slots=True)
class NotFound:
    """A kind of change without a result, and the reason."""

    kind: Kind
    what: str
    why: str


@dataclass(slots=True)
class Counterfactuals:
    """All counterfactuals of an alert.

    Attributes:
        rows: The changes, the smallest first; the change that fires earlier is last.
        not_found: Kinds without a result.
        runs: How often the engine judged.
        why_none: Why there was no search; "" if there was one.
    """

    rows: list[Counterfactual] = field(default_factory=list)
    not_found: list[NotFound] = field(default_factory=list)
    runs: int = 0
    why_none: str = ""


def counterfactuals(
    runner: VariantRunner, alert: Mapping[str, Any], records: Sequence[KeyRecord], since_ms: int
) -> Counterfactuals:
    """Search for the smallest change of each kind.

    Args:
        runner: The rule version, and what judges.
        alert: The alert, or its last correction.
        records: The records of its key up to now, in the order of arrival.
        since_ms: The event time from which ``records`` is complete, epoch ms; no window is made longer than that.
    """
    found = Counterfactuals(why_none=_not_for(runner.rule))
    if found.why_none:
        return found
    before = runner.budget.runs
    try:
        search = _Search.of(runner, records, since_ms)
        found.why_none = search.unlike(alert)
        if not found.why_none:
            search.run(found)
    except BudgetSpentError:
        found.not_found.append(NotFound("record", "Further changes", f"not looked for after {before} runs"))
    found.rows.sort(key=lambda each: (each.sooner, each.size))
    found.runs = before - runner.budget.runs
    return found


def _not_for(rule: Rule) -> str:
    if any(rule_of(source) is not None for source in rule.reading.sources):
        return "the rule reads hits of other rules; changes of these are not looked for"
    if rule.rule_type in {"absence", "list"}:
        return f"changes of a rule of type {rule.rule_type} are not looked for"
    return ""


@dataclass(slots=True)
class _Search:
    runner: VariantRunner
    records: Sequence[KeyRecord]
    since_ms: int
    batch: Any
    present_hits: Mapping[str, Any]  # where the verdict holds as things are

    @classmethod
    def of(cls, runner: VariantRunner, records: Sequence[KeyRecord], since_ms: int) -> _Search:
        batch = runner.batch(records)
        return cls(runner, records, since_ms, batch, runner.holds(batch))

    def unlike(self, alert: Mapping[str, Any]) -> str:
        """Why the records do not reproduce the alert; "" if they do."""
        again = self.present_hits.get(self.runner.record_id)
        if again is None:
            return f"the records that were read back do not make the rule fire at {self.runner.record_id}"
        if again["value"] != alert["value"]:
            return f"the records that were read back give {again['value']}, the alert has {alert['value']}"
        return ""

    @property
    def crossing(self) -> KeyRecord:
        return next(each for each in self.records if each.record_id == self.runner.record_id)

    def run(self, found: Counterfactuals) -> None:
        """Search all kinds, those with the fewest runs first."""
        parameters = parameters_of(self.runner, self.records)
        steps: list[tuple[Kind, str, Callable[[], Counterfactual | None]]] = [
            *((each.kind, each.what, self._knob(each)) for each in parameters),
            *(() if self.runner.program().verdict is None else (("record", "One record less", self._left_out),)),
            *(("amount", f"{name} of {self.runner.record_id}", self._amount(name)) for name in self._fields()),
        ]
        if self.runner.rule.rule_type in TIMED:
            steps.append(("time", f"Time of {self.runner.record_id}", self._later))
        for kind, what, look in steps:
            try:
                row = look()
            except BudgetSpentError:
                found.not_found.append(NotFound(kind, what, "not found within the budget of runs"))
                continue
            if row is None:
                found.not_found.append(NotFound(kind, what, "no change of it turns the verdict"))
            else:
                found.rows.append(row)
        soonest = find_earlier_firing(
            self.runner, parameters, self.records, self.batch, self.present_hits, self._range, self._hints
        )
        if soonest is not None:
            parameter, turn, then = soonest
            found.rows.append(self._row_of(parameter, turn, then, sooner=True))

    def _fields(self) -> list[str]:
        return record_fields(self.runner, self.crossing)

    def _range(self, parameter: Parameter) -> Range:
        most = float("inf")
        if parameter.kind == "window":
            most = max(parameter.present, clock_ms(self.runner, self.crossing) - self.since_ms)
        return Range(parameter.present, parameter.step, parameter.least, most, FAN)

    def _hints(self, parameter: Parameter) -> list[float]:
        if parameter.kind == "window":
            return window_hints(self.runner, self.records)
        values = [each.value(parameter.field) for each in self.records] if parameter.field else []
        numbers = [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)]
        return [0, *numbers, *(each + sign * float(parameter.step) for each in numbers for sign in (-1, 1))]

    def _knob(self, parameter: Parameter) -> Callable[[], Counterfactual | None]:
        def look() -> Counterfactual | None:
            judge = rule_judge(self.runner, parameter, self.batch, lambda held: self.runner.record_id not in held)
            turn = nearest_turning_point(judge, self._range(parameter), self._hints(parameter))
            if turn is None:
                return None
            rule = parameter.with_value(turn.value)
            then = outcome_of_change(self.runner, Variant(rule, self.records), self.present_hits[self.runner.record_id])
            return self._row_of(parameter, turn, then)

        return look

    def _row_of(self, parameter: Parameter, turn: TurningPoint, then: str, *, sooner: bool = False) -> Counterfactual:
        rules = [parameter.with_value(each) for each in (turn.value, turn.before)]
        body, less = (None if each is None else each.canonical() for each in rules)
        what = f"Would have fired sooner: {parameter.what[0].lower()}{parameter.what[1:]}" if sooner else parameter.what
        return Counterfactual(
            kind=parameter.kind,
            what=what,
            was=parameter.present,
            turns_at=turn.value,
            one_less=turn.before,
            unit=parameter.unit,
            then=then,
            field=parameter.field,
            sooner=sooner,
            body=body,
            body_less=less,
        )

    def _amount(self, name: str) -> Callable[[], Counterfactual | None]:
        def look() -> Counterfactual | None:
            present = self.crossing.value(name)
            values = [each.value(name) for each in self.records if each.value(name) is not None]
            least = 0.0 if min(values) >= 0 else float("-inf")
            judge = self._record_judge(lambda v: records_with(self.records, self.runner.record_id, name, v))
            hints = [0, *(each.present for each in parameters_of(self.runner, self.records) if each.field == name)]
            turn = nearest_turning_point(judge, Range(present, step_of(values), least), hints)
            if turn is None:
                return None
            made = records_with(self.records, self.runner.record_id, name, turn.value)
            return self._row("amount", f"{name} of {self.runner.record_id}", present, turn, name, made)

        return look

    def _later(self) -> Counterfactual | None:
        """The crossing record at a later time, without the records after it."""
        at_ms = self.crossing.event_ms

        def made(value: float) -> list[KeyRecord]:
            return records_shifted(self.runner, self.records, int(value) - at_ms)

        turn = nearest_turning_point(self._record_judge(made), Range(at_ms, step_of([1]), least=at_ms), [])
        if turn is None:
            return None
        return self._row("time", f"Time of {self.runner.record_id}", at_ms, turn, "", made(turn.value), unit="instant")

    def _row(
        self,
        kind: Kind,
        what: str,
        was: float,
        turn: TurningPoint,
        name: str,
        made: Sequence[KeyRecord],
        unit: str = "",
    ) -> Counterfactual:
        then = outcome_of_change(self.runner, Variant(None, made), self.present_hits[self.runner.record_id])
        return Counterfactual(
            kind, what, was, turn.value, turn.before, unit or name, then, record_id=self.runner.record_id, field=name
        )

    def _record_judge(self, made: Callable[[float], Sequence[KeyRecord]]) -> TurnTest:
        def judge(values: Sequence[float]) -> Iterator[bool]:
            for value in values:
                yield self.runner.record_id not in self.runner.holds(self.runner.batch(made(value)))

        return judge

    def _left_out(self) -> Counterfactual | None:
        """The window without one of its records; the latest ones are tried first."""
        place = self.records.index(self.crossing)
        others = list(reversed(self.records[:place]))[:LEFT_OUT_MAX]
        turning: list[KeyRecord] = []
        for each in others:
            held = self.runner.holds(self.runner.batch(without(self.records, each.record_id)))
            if self.runner.record_id not in held:
                turning.append(each)
        if not turning:
            return None
        first = turning[0]
        then = outcome_of_change(
            self.runner,
            Variant(None, without(self.records, first.record_id)),
            self.present_hits[self.runner.record_id],
        )
        what = left_out_text(turning, place)
        return Counterfactual("record", what, None, None, None, "", then, record_id=first.record_id)


def rule_judge(
    runner: VariantRunner, parameter: Parameter, batch: Any, turned: Callable[[Mapping[str, Any]], bool]
) -> TurnTest:
    """A test of the values of a parameter, many values in a run; a value that gives no valid rule turns nothing."""

    def judge(values: Sequence[float]) -> Iterator[bool]:
        for start in range(0, len(values), FAN):
            rules = [parameter.with_value(each) for each in values[start : start + FAN]]
            held = iter(runner.replays([each for each in rules if each is not None], batch))
            yield from [each is not None and turned(next(held)) for each in rules]

    return judge
