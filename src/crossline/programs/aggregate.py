"""The declaration of an aggregate. Each aggregate is one file of ``aggregates``; all other code reads its declaration.

Windows, panes, formulas, rule fields, the reference, sentences, lint and the test generators know no aggregate by name.
Shared parts of kernels (sums, pointers, links, sketches) are named here and implemented once, in ``state/windows`` and
``state/panes``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crossline.basics.fields import FieldKind
from crossline.basics.streams.schema import FieldSpec
from crossline.programs.kinds import ColumnKind
from crossline.programs.tools import Compiled, Tools

# What it aggregates: records, or a field that is a number, has an order (a timestamp too), or has any one value.
Takes = Literal["records", "numbers", "ordered", "values"]
# The kind of what it gives; of the field, or of the difference of two of its values.
Gives = Literal["integer", "number", "field", "difference"]
NO_RANK = 0.0


@dataclass(frozen=True, slots=True)
class Scanned:
    """The input of a twin: the records of a window by clock, ties by ingest order.

    ``now_ms``: the clock of the record that is judged. ``clocks_ms``, ``values`` (of the field; where there is none, 1
    each) and ``meets`` (of a streak, whether the record meets its conditions) have one item a record. ``real``: the
    field holds floats. ``rank`` and ``half_life_ms``: as of a ``Figure``.
    """

    values: Sequence[Any]
    clocks_ms: Sequence[int] = ()
    now_ms: int = 0
    meets: Sequence[bool] = ()
    real: bool = False
    rank: float = NO_RANK
    half_life_ms: int = 0


@dataclass(frozen=True, slots=True)
class BoundsRequest:
    """The input of ``Aggregate.bounds``: what lint knows of a figure at a judged record.

    ``own``: 1 where the judged record itself is always in the window, else 0. ``delay_ms`` and ``reach_ms``: of its
    window. ``kind``: the kind of the aggregated field; None: not known. Its values lie from ``low`` to ``high``.
    """

    own: int
    delay_ms: int
    reach_ms: int
    kind: FieldKind | None = None
    low: float = -math.inf
    high: float = math.inf

    @property
    def whole(self) -> bool:
        """Whether the field's values are whole numbers."""
        return self.kind not in {None, "number"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a figure may be: its kind, whether it may be missing, its least and greatest value."""

    kind: FieldKind = "number"
    missing: bool = True
    low: float = -math.inf
    high: float = math.inf


def unbounded(request: BoundsRequest) -> Bounds:  # noqa: ARG001 - no bound, whatever the request
    """Any number, or none."""
    return Bounds()


@dataclass(frozen=True, slots=True)
class Words:
    """The wording of an aggregate. Names in braces are filled in.

    ``phrase``: in explanations, of ``{field}``, ``{records}``, ``{last_of}`` (``last of``, or ``one before among`` the
    records that are judged), ``{meets}``, ``{rank}`` and ``{half_life}``. ``before`` and ``after``: beside a value in
    the sentence of an alert, of ``{field}`` and ``{records}``.
    """

    phrase: str
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Parameters:
    """How it is written where a field's name does not say it all.

    ``written``: the type of what stands in a rule. ``of``: of that, the field and the rank. ``example``: how it looks;
    ``shown``: in the table of the reference.
    """

    written: Any
    of: Callable[[Any], tuple[str, float]]
    example: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One aggregate of the records in a window.

    Args:
        name: As rules write it.
        place: Where it stands in lists and tables, ascending.
        means: Its line in the reference of rules.
        takes: The values that it aggregates.
        gives: The kind of its value.
        least: Of how many records on it is defined; of fewer it is missing, and satisfies nothing. A record without
            the field does not count, nor one that is later than the rule allows.
        words: Its wording.
        naive: Its twin: the value from its definition, of at least ``least`` records.
        bounds: What it may be, for lint.
        value: How compiled code reads it of what is kept (see ``tools``); None: it is the number of records.
        window: What windows keep for it, at most two of ``windows/program.py``: as a record comes into the window it is
            added, and subtracted as it leaves; None: it is defined on panes alone.
        pane: What panes keep for it, at most two of ``panes/program.py``, which also merge; None: it is defined on
            windows of records alone.
        limits: Why it is not defined on the other.
        parameters: How it is written, where a field's name does not say it all.
        rank: Of a quantile that needs no parameter, which.
        grows: The comparisons that go on to hold as records are added to the window.
        in_ms: Its value is a time in milliseconds.
        counts: Its value is a number of things, whatever its field is.
        before_itself: The record that is judged is not in its window, if the rule does not say so.
        meets: Its ``conditions`` say what its records meet, not which they are.
        hidden: No rule writes it by its name.
        sketch_error: How far off panes may be, as a part of the value; None: not at all.
        rounding: The same of what panes round, for tests.
        sortable: Of integers it is read of their count and sum alone, so that records may come to it in any order.
    """

    name: str
    place: int
    means: str
    words: Words
    naive: Callable[[Scanned], Any]
    value: Callable[[Tools, bool], Compiled] | None = None
    takes: Takes = "numbers"
    gives: Gives = "number"
    least: int = 0
    bounds: Callable[[BoundsRequest], Bounds] = unbounded
    window: tuple[str, ...] | None = ()
    pane: tuple[str, ...] | None = ()
    limits: str = ""
    parameters: Parameters | None = None
    rank: float = NO_RANK
    grows: tuple[str, ...] = ()
    in_ms: bool = False
    counts: bool = False
    before_itself: bool = False
    meets: bool = False
    hidden: bool = False
    sketch_error: float | None = None
    rounding: float = 0.0
    sortable: bool = False

    @property
    def of_records(self) -> bool:
        """Whether it aggregates records rather than a field."""
        return self.takes == "records"

    @property
    def example(self) -> str:
        """How it is written."""
        if self.parameters is not None:
            return f"{self.name}: {self.parameters.example}"
        return f"{self.name}: {'true' if self.of_records else 'field'}"

    def of(self, written: Any) -> tuple[str | None, float]:
        """The field and the rank, of what stands in a rule."""
        if self.parameters is not None:
            return self.parameters.of(written)
        return None if self.of_records else written, self.rank

    def fits(self, column: FieldSpec) -> bool:
        """Whether it can aggregate the field."""
        if column.is_list:
            return False
        if self.takes == "values":
            return True
        return column.kind in {"integer", "number"} or (column.kind == "timestamp" and self.takes == "ordered")

    def kind(self, field_kind: FieldKind) -> FieldKind:
        """The kind of its value, of a field of ``field_kind``."""
        if self.gives == "field":
            return field_kind
        if self.gives == "difference":
            return "number" if field_kind == "number" else "integer"
        return self.gives

    def column_kind(self, field_kind: FieldKind) -> ColumnKind:
        """How the field is kept."""
        if self.takes == "values":
            return "code"
        return "float" if field_kind == "number" else "int"

    def by_twin(self, scanned: Scanned) -> Any:
        """Its value by its twin; None where it is not defined."""
        return self.naive(scanned) if len(scanned.values) >= self.least else None
