"""What a rule set compiles to: key spaces, entries, cursors, groups and lines, as plain frozen values.

A *key space* is a stream grouped by some fields on one clock; rules in it share its records. An *entry* says which of
its records enter a window. A *cursor* is a window over one entry; a *group* is an aggregate of one field over a
cursor; a *line* is one rule version's comparison on a group. Rules that need the same group share it: the work grows
with groups, not rules.

Rules about the order of records have patterns in place of cursors, groups and comparisons (``order_spaces``).
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
    """A window of ``window_ms`` over the records of entry number ``entry``; bounds as rules write them.

    ``delay_ms``: it ends so long before the record. ``resolution_ms``: its far edge is rounded down to a multiple of
    that, and closed; so is, where there is a delay, its near edge, which is open then. 0: it is exact.
    """

    filter: int
    window_ms: int
    left_closed: bool
    right_open: bool
    include_current: bool
    delay_ms: int = 0
    resolution_ms: int = 0

    def span_ms(self, now_ms: int) -> tuple[int, int]:
        """From when to when it reaches at a record of ``now_ms``."""
        end = now_ms - self.delay_ms
        start, resolution = end - self.window_ms, self.resolution_ms
        if not resolution:
            return start, end
        return start // resolution * resolution, end // resolution * resolution if self.delay_ms else end

    def spans_ms(self, now_ms: I64) -> tuple[I64, I64]:
        """The same of many records."""
        spans: Any = self.span_ms
        starts_ms, ends_ms = spans(now_ms)
        return starts_ms, ends_ms


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """``aggregate`` of column number ``column`` (-1: of the records themselves) over cursor number ``cursor``.

    Of a streak ``column`` is the number of the entry that its records are in. ``rank``: of a quantile, which.
    ``half_life_ms``: of a decayed sum.
    """

    window: int
    column: int
    aggregate: str
    rank: float = 0.0
    half_life_ms: int = 0


# What a line is asked for: an entry and a group over it that it reads, or None where it looks at the entry for itself.
Unit = tuple[int, AggregateSpec | None]


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """One rule version's line: satisfied where group value ``operator`` ``threshold``.

    Judges the records of its cursor's entry whose ingest time is in one of ``spans`` (from, until: from <= ingest_ms <
    until; ascending, apart) and, where ``judge_lateness_ms`` is not None, lateness <= it. A version that was paused for
    a while has two spans, and what it remembers of a key outlives the pause. ``cooldown_ms`` 0 is none.
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
        """The entry whose records it judges."""
        return plan.windows[plan.aggregates[self.aggregate].window].filter

    def rearm_in(self, plan: WindowPlan) -> tuple[int, bool]:
        """How far back the record judged before it no longer counts, in ms; and whether that edge is a pane's."""
        cursor = plan.windows[plan.aggregates[self.aggregate].window]
        in_panes = cursor.resolution_ms > 0
        return cursor.window_ms + (cursor.left_closed and not in_panes), in_panes

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """What is worked out for it."""
        yield self.filter_in(plan), plan.aggregates[self.aggregate]


@dataclass(frozen=True, slots=True)
class CrossKeyInput:
    """A figure of another key, told a level below: the name that the formula has for it, its kind and its window."""

    rule_id: str
    version: int
    name: str
    kind: FieldKind
    window: WindowSpec

    @property
    def fact(self) -> str:
        """What it is called among the fields of records."""
        return f"\x1d{self.rule_id}\x1d{self.version}\x1d{self.name}"


def count_of(fact: str) -> str:
    """What the number of records in the window of a figure that is brought is called."""
    return f"{fact}\x1dcount"


def up_of(fact: str) -> str:
    """What is called what it lacks beyond 64 bits, in units of 2^64; there is none where no row lacks any."""
    return f"{fact}\x1dup"


@dataclass(frozen=True, slots=True)
class FormulaPlan:
    """One rule version's formula: judged at the records of entry number ``entry``, of the figures that it names.

    ``figures``: the name that the formula has for it, the number of a group, and of the group that counts its window;
    the window of the first is what an alert shows, and its records are the evidence. ``rearm_ms``: after so long
    without a record that is judged, it is no longer satisfied. ``verdict``: what is judged by, and shown. ``brought``:
    figures of other keys that it names. The rest is as in ``ComparisonPlan``.
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

    def filter_in(self, plan: WindowPlan) -> int:  # noqa: ARG002 - a line asks its group
        """The entry whose records it judges."""
        return self.filter

    def rearm_in(self, plan: WindowPlan) -> tuple[int, bool]:
        """As of a ``ComparisonPlan``; the edge is a pane's where that of any figure is."""
        cursors = (plan.windows[plan.aggregates[group].window] for _, group, _ in self.figures)
        return self.rearm_ms, any(cursor.resolution_ms for cursor in cursors)

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """What is worked out for it."""
        yield from _units_of(plan, self.figures)
        yield self.filter, None


@dataclass(frozen=True, slots=True)
class FeatureQueryPlan:
    """Figures that are computed for the records of entry number ``entry``, by one version of what asks for them.

    ``figures``: as in ``FormulaPlan``. ``facts``: fields of the record that go along. It makes no hit and
    remembers nothing of a key.
    """

    rule_id: str
    version: int
    filter: int
    figures: tuple[tuple[str, int, int], ...]
    facts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    by_formula: ClassVar[bool] = False

    def filter_in(self, plan: WindowPlan) -> int:  # noqa: ARG002 - a line asks its group
        """The filter of its records."""
        return self.filter

    def units_in(self, plan: WindowPlan) -> Iterator[Unit]:
        """What is worked out for it."""
        yield from _units_of(plan, self.figures)


def _units_of(plan: WindowPlan, figures: tuple[tuple[str, int, int], ...]) -> Iterator[Unit]:
    for _, number, _ in figures:
        group = plan.aggregates[number]
        yield plan.windows[group.window].filter, group


PlanKind = Literal["windows", "panes", "patterns", "absences", "decided"]  # which kernel judges by it


@dataclass(frozen=True, slots=True)
class KeySpacePlan:
    """Everything the window kernel needs to judge one key space.

    ``columns``: (field name, kind) of the values kept per record. Lines, and after them formulas, are numbered through;
    ``feature_queries``, which judge nothing, are not.

    ``entries`` is the number of entries (bits per record). A record whose clock is at or before (cutoff clock -
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
        """Lines and formulas, by their numbers."""
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
        """The kind of the values that the hits of line ``number`` list; None where they list none."""
        column = self.aggregates[self.lines[number].aggregate].column if number < len(self.lines) else -1
        return self.columns[column][1] if column >= 0 else None


@dataclass(frozen=True, slots=True)
class PanePart:
    """What a pane keeps: ``aggregate`` of column number ``column`` of its records in entry number ``entry``.

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
        """Lines and formulas, by their numbers."""
        return (*self.lines, *self.formulas)

    @property
    def windowed(self) -> PaneSpacePlan:
        """Itself."""
        return self

    def listed_kind(self, number: int) -> ColumnKind | None:  # noqa: ARG002 - panes keep no values
        """None: hits list the records of a window without their values."""
        return None


def parts_of(groups: Iterable[tuple[int, AggregateSpec]]) -> tuple[PanePart, ...]:
    """What panes must keep for ``groups``, each with the entry of its cursor; the records of each entry are counted."""
    found: dict[PanePart, None] = {}
    for entry, group in groups:
        found |= dict.fromkeys((PanePart("count", entry, -1), *own_parts(entry, group)))
    return tuple(found)


def own_parts(entry: int, group: AggregateSpec) -> tuple[PanePart, ...]:
    """What panes must keep for ``group``, besides counts; of what is not defined on panes nothing."""
    return tuple(PanePart(kept, entry, group.column) for kept in declared(group.aggregate).pane or ())


WindowPlan = KeySpacePlan | PaneSpacePlan
