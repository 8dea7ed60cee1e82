"""Feeds, windows and figures: which records count, how far back, and what is worked out of them."""

from __future__ import annotations

from dataclasses import dataclass

from crossline.basics.conditions.condition import Condition
from crossline.programs.kinds import ColumnKind, TimeMode
from crossline.programs.registry import declared


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
    """From t - ``length_ms`` to t, which is ``delay_ms`` before the time of the record.

    ``bounds``: its ends, as rules write them. ``resolution_ms``: it begins with a pane of this length, and panes are
    kept instead of records; 0: it is exact.
    """

    length_ms: int
    bounds: str = "(]"
    include_current: bool = True
    delay_ms: int = 0
    resolution_ms: int = 0

    @property
    def reach_ms(self) -> int:
        """How far back from the record it begins, at most."""
        return self.length_ms + self.delay_ms + self.resolution_ms

    @property
    def rearm_ms(self) -> int:
        """How far back from the record lies what has left it."""
        return self.length_ms + self.delay_ms + (self.bounds[0] == "[" and not self.resolution_ms)


@dataclass(frozen=True, slots=True)
class Figure:
    """``aggregate`` of ``column`` over ``window`` of the records of ``feed`` that have one.

    ``aggregate`` is the name of one that is declared (see ``registry``). ``column_kind``: how the column is kept; None:
    it is not, as for a count. ``streak_of``: what the records of a streak meet. ``rank``: of a quantile, which.
    ``half_life_ms``: of a sum that is ``decayed``: by the time of the record, a value that is so old counts half.
    """

    feed: Feed
    aggregate: str
    window: Window
    column: str | None = None
    column_kind: ColumnKind | None = None
    streak_of: Condition | None = None
    rank: float = 0.0
    half_life_ms: int = 0

    @property
    def error(self) -> float | None:
        """How far off it may be where panes keep a sketch; None where it is exact."""
        return declared(self.aggregate).sketch_error if self.window.resolution_ms else None
