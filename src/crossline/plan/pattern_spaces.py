"""The compiled form of rules about the order of records: sequences and absences over the filters of a key space.

A predicate is one rule version's *sequence* (records that follow each other) or *absence* (an expected record that does
not come). The rest is as in ``spaces``: filters select the records of the key space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from crossline.plan.spaces import CrossKeyInput, FeatureQueryPlan, FormulaPlan, PlanKind, Unit
from crossline.programs.kinds import ColumnKind


@dataclass(frozen=True, slots=True)
class StepPlan:
    """``times`` records (at least one) of filter number ``filter``, one after the other."""

    filter: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """One rule version's sequence: all ``steps`` in order, the last at most ``within_ms`` after the first.

    ``until``: the filter whose records end a partial match. ``strict``: the filter whose records may not come in
    between; for "any other record" every timely record passes it. The kernel sees every record of these filters. A
    complete match is a hit where the rule judges its last record, by ``spans`` and ``judge_lateness_ms`` as in
    ``ComparisonPlan``, and ``cooldown_ms`` is over. A complete match is used up in any case.

    ``probes``: instead, each record that completes a step is a hit, at the last step that it completes.
    """

    cross_key_inputs: ClassVar[tuple[CrossKeyInput, ...]] = ()
    rule_id: str
    version: int
    steps: tuple[StepPlan, ...]
    within_ms: int
    until: int | None
    strict: int | None
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    cooldown_ms: int = 0
    probes: bool = False

    def units_in(self, plan: PatternSpacePlan) -> Iterator[Unit]:  # noqa: ARG002 - it has its filters itself
        """The units of work of this predicate: the records of each of its filters."""
        others = (each for each in (self.until, self.strict) if each is not None)
        yield from ((number, None) for number in dict.fromkeys([*(step.filter for step in self.steps), *others]))


@dataclass(frozen=True, slots=True)
class OrderPlan:
    """Base of the plans of sequences and absences: they have no windows, formulas or feature queries."""

    formulas: ClassVar[tuple[FormulaPlan, ...]] = ()
    feature_queries: ClassVar[tuple[FeatureQueryPlan, ...]] = ()
    waiting: ClassVar[tuple[tuple[int, FormulaPlan], ...]] = ()
    windowed: ClassVar[None] = None

    def listed_kind(self, number: int) -> ColumnKind | None:  # noqa: ARG002 - no hit lists values
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class PatternSpacePlan(OrderPlan):
    """Everything the pattern kernel needs to judge one key space.

    ``filters``: their number (bits per record). ``lines``: the sequences. ``retention_ms``: at least the longest
    ``within_ms`` and cooldown; a record whose clock is at or before (cutoff clock - ``retention_ms``) is in no future
    match.
    """

    kind: ClassVar[PlanKind] = "patterns"
    filters: int
    lines: tuple[SequencePlan, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[SequencePlan, ...]:
        """The sequences, by their numbers."""
        return self.lines


@dataclass(frozen=True, slots=True)
class AbsencePlan:
    """One rule version's absence: a record of filter ``after``, and none of ``expect`` up to ``within_ms`` later.

    ``grace_ms``: how much longer the expected record may be on its way. ``spans``, ``judge_lateness_ms`` and
    ``cooldown_ms`` are as in ``ComparisonPlan``, and hold for the record of ``after``. ``probes``: a record of
    ``after`` that was followed in time is a hit too.
    """

    cross_key_inputs: ClassVar[tuple[CrossKeyInput, ...]] = ()
    rule_id: str
    version: int
    after: int
    expect: int
    within_ms: int
    grace_ms: int
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    cooldown_ms: int = 0
    probes: bool = False

    def units_in(self, plan: AbsenceSpacePlan) -> Iterator[Unit]:  # noqa: ARG002 - it has its filters itself
        """The units of work of this predicate: the records of both filters."""
        yield from ((number, None) for number in (self.after, self.expect))


@dataclass(frozen=True, slots=True)
class AbsenceSpacePlan(OrderPlan):
    """Everything the absence kernel needs to judge one key space: as ``PatternSpacePlan``, with absences.

    ``retention_ms``: at least the largest sum of ``within_ms`` and ``cooldown_ms``.
    """

    kind: ClassVar[PlanKind] = "absences"
    filters: int
    lines: tuple[AbsencePlan, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[AbsencePlan, ...]:
        """The absences, by their numbers."""
        return self.lines
