"""What a rule set compiles to: key spaces, entries, cursors, groups and lines, as plain frozen values.

A *key space* is a stream grouped by some fields on one clock; rules in it share its records. An *entry* says which of
its records enter a window. A *cursor* is a window over one entry; a *group* is an aggregate of one field over a
cursor; a *line* is one rule version's comparison on a group. Rules that need the same group share it: the work grows
with groups, not rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from crossline.core.figures.kinds import Aggregate, ColumnKind, Operator


@dataclass(frozen=True, slots=True)
class Cursor:
    """A window of ``window_ms`` over the records of entry number ``entry``; bounds as in rules.md."""

    entry: int
    window_ms: int
    left_closed: bool
    right_open: bool
    include_current: bool


@dataclass(frozen=True, slots=True)
class Group:
    """``aggregate`` of column number ``column`` (-1 for count) over cursor number ``cursor``."""

    cursor: int
    column: int
    aggregate: Aggregate


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
class KeySpacePlan:
    """Everything the window kernel needs to judge one key space.

    ``columns``: (field name, kind) of the values kept per record.

    ``entries`` is the number of entries (bits per record). A record whose clock is at or before (cutoff clock -
    ``retention_ms``) is in no future window.
    """

    columns: tuple[tuple[str, ColumnKind], ...]
    entries: int
    cursors: tuple[Cursor, ...]
    groups: tuple[Group, ...]
    lines: tuple[Line, ...]
    retention_ms: int
