"""The compiled form of a rule set: filters, windows, aggregates and predicates of a key space, as plain frozen values.

A *key space* is a stream grouped by some fields on one clock; rules in it share its records. A *filter* selects the
records that enter a window. A *window* covers the records of one filter. An *aggregate* is computed from one field over
one window. A *comparison* compares an aggregate with the threshold of one rule version. Rules that need the same
aggregate share it: the work grows with the number of aggregates, not of rules.

Rules about the order of records have patterns instead of windows, aggregates and comparisons (``pattern_spaces``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from crossline.basics.fields import FieldKind
from crossline.basics.values import I64
from crossline.programs.kinds import ColumnKind, Operator
from crossline.programs.program import FormulaPredicate
from crossline.programs.registry import declared


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window of ``window_ms`` over the records of filter number ``filter``; bounds as rules write them.

    ``delay_ms``: how long before the record the window ends. ``resolution_ms``: the start is rounded down to a multiple
    of it, and is closed. With a delay, the end is rounded down too, and is open. 0: the window is exact.
    """

    filter: int
    window_ms: int
    left_closed: bool
    right_open: bool
    include_current: bool
    delay_ms: int = 0
    resolution_ms: int = 0

    def span_ms(self, now_ms: int) -> tuple[int, int]:
        """Start and end of the window of a record at ``now_ms``."""
        end = now_ms - self.delay_ms
        start, resolution = end - self.window_ms, self.resolution_ms
        if not resolution:
            return start, end
        return start // resolution * resolution, end // resolution * resolution if self.delay_ms else end

    def spans_ms(self, now_ms: I64) -> tuple[I64, I64]:
        """Start and end of the windows of many records."""
        spans: Any = self.span_ms
        starts_ms, ends_ms = spans(now_ms)
        return starts_ms, ends_ms


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """``aggregate`` of column number ``column`` (-1: of the records themselves) over window number ``window``.

    For a streak, ``column`` is the number of the filter that its records pass. ``rank``: the rank of a quantile.
    ``half_life_ms``: the half-life of a decayed sum.
    """

    window: int
    column: int
    aggregate: str
    rank: float = 0.0
    half_life_ms: int = 0


# A unit of work for a predicate: a filter, and the aggregate over it that the predicate reads; None: the filter alone.
Unit = tuple[int, AggregateSpec | None]


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """One rule version's comparison: satisfied where the aggregate ``operator`` ``threshold``.

    Judges the records of its window's filter whose ingest time is in one of ``spans`` (from, until: from <= ingest_ms <
    until; ascending, disjoint) and, where ``judge_lateness_ms`` is not None, lateness <= it. A version that was paused
    has two spans, and its state of a key outlives the pause. ``cooldown_ms`` 0: no cooldown.
    """

    by_formula: ClassVar[bool] = False
    cross_key_inputs: ClassVar[tuple[CrossKeyInput, ...]] = ()
    rule_id: str
    version: int
    aggregate: int
    operator: Operator
    threshold: float | int
    emit_every: bool
    cooldown_ms: int
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None

    def filter_in(self, plan: WindowPlan) -> int:
        """The number of the filter whose records it judges."""
        return plan.windows[plan.aggregates[self.aggregate].window].filter

    def rearm_in(self, plan: WindowPlan) -> tuple[int, bool]:
        """The age in ms from which the previous judged record no longer counts; and whether that edge is a pane's."""
        window = plan.windows[plan.aggregates[self.aggregate].window]
        in_panes = window.resolution_ms > 0
        return window.window_ms + (window.left_closed and not in_panes), in_panes

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """The units of work of this predicate."""
        yield self.filter_in(plan), plan.aggregates[self.aggregate]


@dataclass(frozen=True, slots=True)
class CrossKeyInput:
    """A figure of another key, computed at a lower depth: its name in the formula, its kind and its window."""

    rule_id: str
    version: int
    name: str
    kind: FieldKind
    window: WindowSpec

    @property
    def fact(self) -> str:
        """The name of the record field that carries the figure."""
        return f"\x1d{self.rule_id}\x1d{self.version}\x1d{self.name}"


def count_of(fact: str) -> str:
    """The name of the field with the number of records in the window of a cross-key figure."""
    return f"{fact}\x1dcount"


def up_of(fact: str) -> str:
    """The name of the field with what exceeds 64 bits, in units of 2^64; absent where no row exceeds them."""
    return f"{fact}\x1dup"


@dataclass(frozen=True, slots=True)
class FormulaPlan:
    """One rule version's formula over figures, judged at the records of filter number ``filter``.

    ``figures``: for each figure its name in the formula, the number of its aggregate, and of the aggregate that counts
    its window. An alert shows the window of the first figure, and the records of that window are the evidence.
    ``rearm_ms``: after so long without a judged record, the formula is no longer satisfied. ``verdict``: the formula,
    and the values that an alert shows. ``cross_key_inputs``: figures of other keys. The rest is as in
    ``ComparisonPlan``.
    """

    by_formula: ClassVar[bool] = True
    rule_id: str
    version: int
    filter: int
    figures: tuple[tuple[str, int, int], ...]
    verdict: FormulaPredicate
    rearm_ms: int
    emit_every: bool
    cooldown_ms: int
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    cross_key_inputs: tuple[CrossKeyInput, ...] = ()

    def filter_in(self, plan: WindowPlan) -> int:  # noqa: ARG002 - a comparison reads it from the plan
        """The number of the filter whose records it judges."""
        return self.filter

    def rearm_in(self, plan: WindowPlan) -> tuple[int, bool]:
        """As of a ``ComparisonPlan``; the edge is a pane's where that of any figure is."""
        windows = (plan.windows[plan.aggregates[number].window] for _, number, _ in self.figures)
        return self.rearm_ms, any(window.resolution_ms for window in windows)

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """The units of work of this predicate."""
        yield from _units_of(plan, self.figures)
        yield self.filter, None


@dataclass(frozen=True, slots=True)
class FeatureQueryPlan:
    """Figures that one version of a feature query computes for the records of filter number ``filter``.

    ``figures``: as in ``FormulaPlan``. ``facts``: fields of the record in the feature rows. It makes no hit and keeps
    no state of a key.
    """

    rule_id: str
    version: int
    filter: int
    figures: tuple[tuple[str, int, int], ...]
    facts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    by_formula: ClassVar[bool] = False

    def filter_in(self, plan: WindowPlan) -> int:  # noqa: ARG002 - a comparison reads it from the plan
        """The filter of its records."""
        return self.filter

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """The units of work of this predicate."""
        yield from _units_of(plan, self.figures)


def _units_of(plan: WindowPlan, figures: tuple[tuple[str, int, int], ...]) -> Iterator[Unit]:
    for _, number, _ in figures:
        aggregate = plan.aggregates[number]
        yield plan.windows[aggregate.window].filter, aggregate


PlanKind = Literal["windows", "panes", "patterns", "absences", "decided"]  # which kernel judges by it


@dataclass(frozen=True, slots=True)
class KeySpacePlan:
    """Everything the window kernel needs to judge one key space.

    ``columns``: (field name, kind) of the values kept per record. Comparisons are numbered first, then formulas;
    ``feature_queries``, which judge nothing, have no number.

    ``filters`` is the number of filters (bits per record). A record whose clock is at or before (cutoff clock -
    ``retention_ms``) is in no future window.
    """

    columns: tuple[tuple[str, ColumnKind], ...]
    filters: int
    windows: tuple[WindowSpec, ...]
    aggregates: tuple[AggregateSpec, ...]
    lines: tuple[ComparisonPlan, ...]
    retention_ms: int
    formulas: tuple[FormulaPlan, ...] = ()
    feature_queries: tuple[FeatureQueryPlan, ...] = ()
    kind: ClassVar[PlanKind] = "windows"

    @property
    def judging(self) -> tuple[ComparisonPlan | FormulaPlan, ...]:
        """Comparisons and formulas, by their numbers."""
        return (*self.lines, *self.formulas)

    @property
    def windowed(self) -> KeySpacePlan:
        """Itself."""
        return self

    @property
    def waiting(self) -> tuple[tuple[int, FormulaPlan], ...]:
        """The formulas whose records wait for their first figure, by their numbers."""
        numbered = enumerate(self.formulas, len(self.lines))
        return tuple((number, line) for number, line in numbered if line.verdict.waits)

    def listed_kind(self, number: int) -> ColumnKind | None:
        """The kind of the values that the hits of predicate ``number`` list; None where they list none."""
        column = self.aggregates[self.lines[number].aggregate].column if number < len(self.lines) else -1
        return self.columns[column][1] if column >= 0 else None


@dataclass(frozen=True, slots=True)
class PanePart:
    """What a pane keeps: ``aggregate`` of column number ``column`` of its records that pass filter number ``filter``.

    As in ``AggregateSpec``, but named as in ``panes.program.KEPT``: several aggregates may read one part, as averages
    read sums. Checkpoints keep it.
    """

    aggregate: str
    filter: int
    column: int


@dataclass(frozen=True, slots=True)
class PaneSpacePlan:
    """Everything the pane kernel needs to judge one key space: as ``KeySpacePlan``, and how it keeps the past.

    Panes are of ``resolution_ms`` and keep ``parts``. Records with a clock up to ``settled_ms`` after the cutoff that
    ``evict`` is given are settled: no record that is judged comes before them any more, so they go into panes.
    """

    columns: tuple[tuple[str, ColumnKind], ...]
    filters: int
    windows: tuple[WindowSpec, ...]
    aggregates: tuple[AggregateSpec, ...]
    lines: tuple[ComparisonPlan, ...]
    retention_ms: int
    resolution_ms: int
    settled_ms: int
    parts: tuple[PanePart, ...]
    formulas: tuple[FormulaPlan, ...] = ()
    feature_queries: tuple[FeatureQueryPlan, ...] = ()
    kind: ClassVar[PlanKind] = "panes"
    waiting: ClassVar[tuple[tuple[int, FormulaPlan], ...]] = ()  # panes keep no last value

    @property
    def judging(self) -> tuple[ComparisonPlan | FormulaPlan, ...]:
        """Comparisons and formulas, by their numbers."""
        return (*self.lines, *self.formulas)

    @property
    def windowed(self) -> PaneSpacePlan:
        """Itself."""
        return self

    def listed_kind(self, number: int) -> ColumnKind | None:  # noqa: ARG002 - panes keep no values
        """None: hits list the records of a window without their values."""
        return None


def parts_of(aggregates: Iterable[tuple[int, AggregateSpec]]) -> tuple[PanePart, ...]:
    """The pane parts of ``aggregates``, each with the number of its filter; each filter has a count of records."""
    found: dict[PanePart, None] = {}
    for number, aggregate in aggregates:
        found |= dict.fromkeys((PanePart("count", number, -1), *own_parts(number, aggregate)))
    return tuple(found)


def own_parts(number: int, aggregate: AggregateSpec) -> tuple[PanePart, ...]:
    """The pane parts of ``aggregate`` over filter ``number``, besides counts; none where panes do not define it."""
    return tuple(PanePart(kept, number, aggregate.column) for kept in declared(aggregate.aggregate).pane or ())


WindowPlan = KeySpacePlan | PaneSpacePlan
