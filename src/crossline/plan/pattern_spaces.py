"""What rules about the order of records compile to: patterns and absences over the entries of a key space.

A line is one rule version's *pattern* (which records follow each other) or *absence* (which record does not come). The
rest is as in ``spaces``: entries say which records of the key space enter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from crossline.plan.spaces import CrossKeyInput, FeatureQueryPlan, FormulaPlan, PlanKind, Unit
from crossline.programs.kinds import ColumnKind


@dataclass(frozen=True, slots=True)
class StepPlan:
    """``times`` records (at least one) of entry number ``entry``, one after the other."""

    filter: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class SequencePlan:
    """One rule version's sequence: all ``steps`` in order, the last at most ``within_ms`` after the first.

    ``until``: the entry whose records end what is under way. ``strict``: the entry whose records may not come in
    between, which for "any other record" is one that every timely record is in. Every record of these entries is
    offered. A match that is complete is a hit where its last record is one that the rule judges, by ``spans`` and
    ``judge_lateness_ms`` as a ``ComparisonPlan`` does, and ``cooldown_ms`` is over; it is used up in any case.

    ``probes``: instead, each record that takes a step is a hit, at the last of the steps that it takes.
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

    def units_in(self, plan: PatternSpacePlan) -> Iterator[Unit]:  # noqa: ARG002 - it names its entries itself
        """What is worked out for it: it is offered the records of each of its entries."""
        others = (each for each in (self.until, self.strict) if each is not None)
        yield from ((entry, None) for entry in dict.fromkeys([*(step.filter for step in self.steps), *others]))


@dataclass(frozen=True, slots=True)
class OrderPlan:
    """What plans of the order of records, or of what does not come, have none of: windows, and what stands on them."""

    formulas: ClassVar[tuple[FormulaPlan, ...]] = ()
    feature_queries: ClassVar[tuple[FeatureQueryPlan, ...]] = ()
    waiting: ClassVar[tuple[tuple[int, FormulaPlan], ...]] = ()
    windowed: ClassVar[None] = None

    def listed_kind(self, number: int) -> ColumnKind | None:  # noqa: ARG002 - no line lists values
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class PatternSpacePlan(OrderPlan):
    """Everything the pattern kernel needs to judge one key space.

    ``entries``: their number (bits per record). ``lines``: the patterns. ``retention_ms``: at least the longest
    ``within_ms`` and cooldown; a record whose clock is at or before (cutoff clock - ``retention_ms``) is in no future
    match.
    """

    kind: ClassVar[PlanKind] = "patterns"
    filters: int
    lines: tuple[SequencePlan, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[SequencePlan, ...]:
        """The patterns, by their numbers."""
        return self.lines


@dataclass(frozen=True, slots=True)
class AbsencePlan:
    """One rule version's absence: a record of entry ``after``, and none of entry ``expect`` up to ``within_ms`` later.

    ``grace_ms``: for how much longer a record that answers may be on its way. ``spans``, ``judge_lateness_ms`` and
    ``cooldown_ms`` are as in a ``ComparisonPlan``, and hold for the record that waits. ``probes``: an answered one is a
    hit too.
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

    def units_in(self, plan: AbsenceSpacePlan) -> Iterator[Unit]:  # noqa: ARG002 - it names its entries itself
        """What is worked out for it: it is offered the records of both of its entries."""
        yield from ((entry, None) for entry in (self.after, self.expect))


@dataclass(frozen=True, slots=True)
class AbsenceSpacePlan(OrderPlan):
    """Everything that judges absences in one key space needs: as ``PatternSpacePlan``, with absences as lines.

    ``retention_ms``: at least the longest ``within_ms`` and ``cooldown_ms`` together, of any.
    """

    kind: ClassVar[PlanKind] = "absences"
    filters: int
    lines: tuple[AbsencePlan, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[AbsencePlan, ...]:
        """The absences, by their numbers."""
        return self.lines
