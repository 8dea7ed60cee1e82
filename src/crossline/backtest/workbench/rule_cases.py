"""Test cases of a rule file: records, and the expected hits of its rules.

Each case is judged by itself, in this process, by the rules that need no other records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from crossline.backtest.trial import as_if_active
from crossline.backtest.workbench.expected_hits import ExpectedHit, differences
from crossline.basics.conditions.lists import Lists
from crossline.basics.streams.inputs import as_came
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding, RefusedError, nearest, one_of, shown
from crossline.basics.texts.report import place, problems_from_validation
from crossline.basics.texts.yamltext import Document
from crossline.evaluate.alerts.current_alerts import current_states
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults, Rule
from crossline.rules.composition import bases_of
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.single_run import SingleRun
from crossline.runtime.snapshot.snapshot import PlanSnapshot

# The processing time of the records of a case: so late that none lies in the future.
LATEST_MS = 7_258_118_399_999


class RuleCase(BaseModel):
    """A test case of a file: records in order, and the expected hits."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    name: str = Field(min_length=1, description="What is tried.")
    stream: str | None = Field(default=None, description="The stream of the records; where there is one only, that.")
    record: dict[str, Any] = Field(default_factory=dict, description="Fields that all records of the case have.")
    records: list[dict[str, Any]] = Field(min_length=1, description="The records, in the order in which they come.")
    hits: list[ExpectedHit] = Field(description="All hits of the rules of the file; [] where none is to fire.")

    @field_validator("hits", mode="before")
    @classmethod
    def _written(cls, value: Any) -> Any:
        """Accept the id of a record as a hit."""
        if not isinstance(value, list):
            return value
        return [{"record": each} if isinstance(each, str) else each for each in value]


class _CaseFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    cases: list[RuleCase] = Field(min_length=1, description="The cases.")


def read_cases(document: Document) -> list[RuleCase]:
    """The cases of a file. Raises RefusedError with all its errors."""
    if not isinstance(document.data, dict):
        raise RefusedError([place(Finding((), shown(document.data), "a mapping with cases"), document)])
    try:
        return _CaseFile.model_validate(document.data).cases
    except ValidationError as error:
        found = problems_from_validation(error, document, _CaseFile)
    raise RefusedError(sorted(found, key=lambda problem: problem.line))


@dataclass(frozen=True, slots=True)
class RuleCaseResult:
    """The result of a case; ``differs`` is empty if it passed."""

    name: str
    differs: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether all hits were as expected."""
        return not self.differs


@dataclass(frozen=True, slots=True)
class RuleCaseRunner:
    """Runs cases: all rules of the folder, and the settings around them."""

    rules: Sequence[Rule]
    streams: Mapping[str, StreamSpec]
    lists: Lists
    defaults: Defaults
    bounds: Bounds

    def run(self, case: RuleCase, of: Collection[str]) -> RuleCaseResult:
        """Judge the records of ``case``, and compare the hits of the rules ``of`` with the expected ones."""
        stream, wrong = self._stream(case)
        if stream is None:
            return RuleCaseResult(case.name, (wrong,))
        active = as_if_active(self.rules)
        fed = rules_reading(active, {stream})
        unfed = sorted(set(of) - {version.rule.rule_id for version in fed.versions})
        expected = [_named(hit, of) for hit in case.hits]
        found = [f"rule {each} reads more than {stream}, which is all that a case has" for each in unfed]
        known = {None, *of}
        found += [
            f"{hit}: no rule of the file, which has {one_of(sorted(of))}" for hit in expected if hit.rule not in known
        ]
        if found:
            return RuleCaseResult(case.name, tuple(found))
        snapshot = PlanSnapshot(fed, {stream: as_came(self.streams[stream])}, self.defaults, 1, self.bounds, self.lists)
        return RuleCaseResult(case.name, tuple(judged(snapshot, stream, case, expected, of)))

    def _stream(self, case: RuleCase) -> tuple[str | None, str]:
        if case.stream is None and len(self.streams) == 1:
            return next(iter(self.streams)), ""
        if case.stream in self.streams:
            return case.stream, ""
        hint = nearest(case.stream, self.streams) if case.stream is not None else None
        found = "no stream" if case.stream is None else f"stream {case.stream}"
        text = f"found {found}, expected {one_of(sorted(self.streams))}"
        return None, f"{text}; {hint}" if hint else text


def rules_reading(rules: RuleSet, streams: Collection[str]) -> RuleSet:
    """The rules that read only records of ``streams``, directly or through hits of other rules."""
    return replace(
        rules,
        versions=tuple(
            version
            for version in rules.versions
            if {base for source in version.rule.reading.sources for base in bases_of(source, rules.heads)}
            <= set(streams)
        ),
    )


def judged(
    snapshot: PlanSnapshot, stream: str, case: RuleCase, expected: Sequence[ExpectedHit], of: Collection[str]
) -> Iterable[str]:
    """Judge the records of a case; the differences from the expected hits."""
    run = SingleRun(snapshot, stream, lambda: LATEST_MS)
    records = [{**case.record, **record} for record in case.records]
    outcomes = [run.judge(rows) for rows in run.batches(records)]
    for letter in (each for outcome in outcomes for each in outcome.dead):
        yield f"records[{letter.offset}] is refused: {letter.reason}: {letter.detail}"
    for late in (each for outcome in outcomes for each in outcome.late):
        yield f"record {late.record_id} came {late.lateness_ms} ms late, and no rule judged it"
    alerts = current_states(alert for outcome in outcomes for alert in outcome.alerts)
    yield from differences(expected, [alert for alert in alerts if alert["rule_id"] in of])


def _named(hit: ExpectedHit, of: Collection[str]) -> ExpectedHit:
    """``hit`` with its rule filled in, if there is only one."""
    return hit.model_copy(update={"rule": next(iter(of))}) if hit.rule is None and len(of) == 1 else hit
