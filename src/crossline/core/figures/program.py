"""What a rule becomes: feeds, figures over them, a verdict, and how it emits. Of its type no more is known.

A *feed* says which records count and under which key. A *figure* is an aggregate over a window of a feed. The *verdict*
says when the figures make the record a hit. A rule type is a front-end that writes these four; what compiles, judges
and tells of hits reads them, and knows no type.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace

from crossline.core.conditions.condition import Condition
from crossline.core.figures.kinds import Aggregate, ColumnKind, Operator, TimeMode


@dataclass(frozen=True, slots=True)
class Feed:
    """Records of a stream that meet ``condition``, by the values of ``key_fields`` (none: all under one key).

    ``time_mode``: the clock that windows are measured on. ``allowed_lateness_ms``: beyond it (ingest time - event time)
    a record does not enter; None: no bound.
    """

    stream: str
    key_fields: tuple[str, ...]
    time_mode: TimeMode
    condition: Condition
    allowed_lateness_ms: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """From t - ``length_ms`` to t, the time of the record; ``bounds`` as in rules.md."""

    length_ms: int
    bounds: str = "(]"
    include_current: bool = True


@dataclass(frozen=True, slots=True)
class Figure:
    """``aggregate`` of ``column`` over ``window`` of the records of ``feed`` that have one.

    ``column_kind``: how it is kept; None: it is not, as for a count.
    """

    feed: Feed
    aggregate: Aggregate
    window: Window
    column: str | None = None
    column_kind: ColumnKind | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict that kernels reach by themselves: the program's figure ``operator`` ``threshold``."""

    operator: Operator
    threshold: float | int


@dataclass(frozen=True, slots=True)
class Emission:
    """When a hit is told: at ``every`` one, or where the verdict was another at the key's record before.

    After it, none for the same key for ``cooldown_ms``. ``delivered`` False: it is recorded, and given to no sink.
    """

    every: bool = True
    cooldown_ms: int = 0
    delivered: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an alert shows: ``fields`` of its record, and the records of the window where it ``lists`` them."""

    fields: tuple[str, ...] = ()
    lists: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """One rule, resolved against its stream and the pipeline's defaults.

    ``feed``: the records that are judged; those later than ``judge_lateness_ms`` are not (None: no such bound).
    ``figure`` and ``verdict`` are None where the record alone decides: each that enters is a hit.
    """

    feed: Feed
    figure: Figure | None = None
    verdict: Comparison | None = None
    emission: Emission = field(default_factory=Emission)
    evidence: Evidence = field(default_factory=Evidence)
    judge_lateness_ms: int | None = None

    def __post_init__(self) -> None:
        if (self.figure is None) != (self.verdict is None):
            raise ValueError("a verdict needs a figure, and a figure a verdict")

    @property
    def reach_ms(self) -> int:
        """How far back from a record its window and cooldown reach."""
        return max(self.figure.window.length_ms if self.figure else 0, self.emission.cooldown_ms)

    @property
    def window_ms(self) -> int | None:
        """The length of its window; None where there is none."""
        return self.figure.window.length_ms if self.figure else None

    def probing(self) -> Program:
        """The same with a line that every figure is beyond, and an alert at every record that has one."""
        if self.verdict is None:
            return self
        beyond = Comparison(">=", -sys.float_info.max)
        return replace(self, verdict=beyond, emission=replace(self.emission, every=True, cooldown_ms=0))
