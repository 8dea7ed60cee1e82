"""What a rule set compiles to: key spaces, entries, cursors, groups and lines, as plain frozen values.

A *key space* is a stream grouped by some fields on one clock; rules in it share its records. An *entry* says which of
its records enter a window. A *cursor* is a window over one entry; a *group* is an aggregate of one field over a
cursor; a *line* is one rule version's comparison on a group. Rules that need the same group share it: the work grows
with groups, not rules.

Rules about the order of records have *patterns* in place of cursors, groups and comparisons: a line is then one rule
version's pattern over entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crossline.basics.fields import FieldKind
from crossline.basics.values import I64
from crossline.programs.kinds import ColumnKind, Operator
from crossline.programs.program import FormulaPredicate
from crossline.programs.registry import declared


@dataclass(frozen=True, slots=True)
class Cursor:
    """A window of ``window_ms`` over the records of entry number ``entry``; bounds as rules write them.

    ``delay_ms``: it ends so long before the record. ``resolution_ms``: its far edge is rounded down to a multiple of
    that, and closed; so is, where there is a delay, its near edge, which is open then. 0: it is exact.
    """

    entry: int
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
class Group:
    """``aggregate`` of column number ``column`` (-1: of the records themselves) over cursor number ``cursor``.

    Of a streak ``column`` is the number of the entry that its records are in. ``rank``: of a quantile, which.
    ``half_life_ms``: of a decayed sum.
    """

    cursor: int
    column: int
    aggregate: str
    rank: float = 0.0
    half_life_ms: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """One rule version's line: satisfied where group value ``operator`` ``threshold``.

    Judges the records of its cursor's entry whose ingest time is in one of ``spans`` (from, until: from <= ingest_ms <
    until; ascending, apart) and, where ``judge_lateness_ms`` is not None, lateness <= it. A version that was paused for
    a while has two spans, and what it remembers of a key outlives the pause. ``cooldown_ms`` 0 is none.
    """

    rule_id: str
    version: int
    group: int
    operator: Operator
    threshold: float | int
    emit_every: bool
    cooldown_ms: int
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None


@dataclass(frozen=True, slots=True)
class Brought:
    """A figure of another key, told a level below: the name that the formula has for it, its kind and its window."""

    rule_id: str
    version: int
    name: str
    kind: FieldKind
    cursor: Cursor

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
class FormulaLine:
    """One rule version's formula: judged at the records of entry number ``entry``, of the figures that it names.

    ``figures``: the name that the formula has for it, the number of a group, and of the group that counts its window;
    the window of the first is what an alert shows, and its records are the evidence. ``rearm_ms``: after so long
    without a record that is judged, it is no longer satisfied. ``verdict``: what is judged by, and shown. ``brought``:
    figures of other keys that it names. The rest is as in ``Line``.
    """

    rule_id: str
    version: int
    entry: int
    figures: tuple[tuple[str, int, int], ...]
    verdict: FormulaPredicate
    rearm_ms: int
    emit_every: bool
    cooldown_ms: int
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    brought: tuple[Brought, ...] = ()


@dataclass(frozen=True, slots=True)
class FeatureQueryLine:
    """Figures that are told of the records of entry number ``entry``, by one version of what asks for them.

    ``figures``: as in ``FormulaLine``. ``facts``: fields of the record that are told along. It makes no hit and
    remembers nothing of a key.
    """

    rule_id: str
    version: int
    entry: int
    figures: tuple[tuple[str, int, int], ...]
    facts: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None


@dataclass(frozen=True, slots=True)
class KeySpacePlan:
    """Everything the window kernel needs to judge one key space.

    ``columns``: (field name, kind) of the values kept per record. Lines, and after them formulas, are numbered through;
    ``feature_queries``, which judge nothing, are not.

    ``entries`` is the number of entries (bits per record). A record whose clock is at or before (cutoff clock -
    ``retention_ms``) is in no future window.
    """

    columns: tuple[tuple[str, ColumnKind], ...]
    entries: int
    cursors: tuple[Cursor, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    retention_ms: int
    formulas: tuple[FormulaLine, ...] = ()
    feature_queries: tuple[FeatureQueryLine, ...] = ()

    @property
    def judging(self) -> tuple[Line | FormulaLine, ...]:
        """Lines and formulas, by their numbers."""
        return (*self.lines, *self.formulas)


@dataclass(frozen=True, slots=True)
class PanePart:
    """What a pane keeps: ``aggregate`` of column number ``column`` of its records in entry number ``entry``.

    As in ``Group``, but named as in ``panes.program.KEPT``: several aggregates may be read of one part, as averages are
    of sums. Checkpoints keep it.
    """

    aggregate: str
    entry: int
    column: int


@dataclass(frozen=True, slots=True)
class PaneSpacePlan:
    """Everything the pane kernel needs to judge one key space: as ``KeySpacePlan``, and how it keeps the past.

    Panes are of ``resolution_ms`` and keep ``parts``. Records with a clock up to ``settled_ms`` after the cutoff that
    ``evict`` is given are settled: no record that is judged comes before them any more, so they go into panes.
    """

    columns: tuple[tuple[str, ColumnKind], ...]
    entries: int
    cursors: tuple[Cursor, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    retention_ms: int
    resolution_ms: int
    settled_ms: int
    parts: tuple[PanePart, ...]
    formulas: tuple[FormulaLine, ...] = ()
    feature_queries: tuple[FeatureQueryLine, ...] = ()

    @property
    def judging(self) -> tuple[Line | FormulaLine, ...]:
        """Lines and formulas, by their numbers."""
        return (*self.lines, *self.formulas)


def parts_of(groups: Iterable[tuple[int, Group]]) -> tuple[PanePart, ...]:
    """What panes must keep for ``groups``, each with the entry of its cursor; the records of each entry are counted."""
    found: dict[PanePart, None] = {}
    for entry, group in groups:
        found |= dict.fromkeys((PanePart("count", entry, -1), *own_parts(entry, group)))
    return tuple(found)


def own_parts(entry: int, group: Group) -> tuple[PanePart, ...]:
    """What panes must keep for ``group``, besides counts; of what is not defined on panes nothing."""
    return tuple(PanePart(kept, entry, group.column) for kept in declared(group.aggregate).pane or ())


WindowPlan = KeySpacePlan | PaneSpacePlan


@dataclass(frozen=True, slots=True)
class Step:
    """``times`` records (at least one) of entry number ``entry``, one after the other."""

    entry: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Pattern:
    """One rule version's sequence: all ``steps`` in order, the last at most ``within_ms`` after the first.

    ``until``: the entry whose records end what is under way. ``strict``: the entry whose records may not come in
    between, which for "any other record" is one that every timely record is in. Every record of these entries is
    offered. A match that is complete is a hit where its last record is one that the rule judges, by ``spans`` and
    ``judge_lateness_ms`` as a ``Line`` does, and ``cooldown_ms`` is over; it is used up in any case.

    ``probes``: instead, each record that takes a step is a hit, at the last of the steps that it takes.
    """

    rule_id: str
    version: int
    steps: tuple[Step, ...]
    within_ms: int
    until: int | None
    strict: int | None
    spans: tuple[tuple[int, int], ...]
    judge_lateness_ms: int | None
    cooldown_ms: int = 0
    probes: bool = False


@dataclass(frozen=True, slots=True)
class PatternSpacePlan:
    """Everything the pattern kernel needs to judge one key space.

    ``entries``: their number (bits per record). ``lines``: the patterns. ``retention_ms``: at least the longest
    ``within_ms`` and cooldown; a record whose clock is at or before (cutoff clock - ``retention_ms``) is in no future
    match.
    """

    entries: int
    lines: tuple[Pattern, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[Pattern, ...]:
        """The patterns, by their numbers."""
        return self.lines


@dataclass(frozen=True, slots=True)
class Absence:
    """One rule version's absence: a record of entry ``after``, and none of entry ``expect`` up to ``within_ms`` later.

    ``grace_ms``: for how much longer a record that answers may be on its way. ``spans``, ``judge_lateness_ms`` and
    ``cooldown_ms`` are as in a ``Line``, and asked of the record that waits. ``probes``: one that was answered is a
    hit too.
    """

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


@dataclass(frozen=True, slots=True)
class AbsenceSpacePlan:
    """Everything that judges absences in one key space needs: as ``PatternSpacePlan``, with absences as lines.

    ``retention_ms``: at least the longest ``within_ms`` and ``cooldown_ms`` together, of any.
    """

    entries: int
    lines: tuple[Absence, ...]
    retention_ms: int

    @property
    def judging(self) -> tuple[Absence, ...]:
        """The absences, by their numbers."""
        return self.lines
