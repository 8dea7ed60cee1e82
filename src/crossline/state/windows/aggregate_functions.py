"""The figures of windows: what each aggregate reads of what a window keeps, chosen by the kind of the group.

The functions that aggregates declare become part of the kernel as it is compiled; at run time the kind of a group
selects which of them it is.
"""

from __future__ import annotations

import math
from typing import Any

from crossline.programs.registry import declared
from crossline.programs.tools import Compiled, Tools
from crossline.state.arithmetic.double_double import pair_add
from crossline.state.arithmetic.rolling_sums import decayed
from crossline.state.memory.access import jit
from crossline.state.memory.addresses import after, clock, deviation_at, enters, precedes, value_f, value_i, window_at
from crossline.state.memory.fields import get, load, put
from crossline.state.memory.layout import (
    AGGREGATE_ACC,
    AGGREGATE_ACC_2,
    AGGREGATE_COL,
    AGGREGATE_KIND,
    COUNT_OF,
    DC_LINK,
    FIRST_OF,
    LAST_OF,
    OFF,
    REAL,
    SAME_AFTER,
    SAME_BEFORE,
    SD_COL,
    SD_HALF,
    UP_REST,
    WHOLE,
    WINDOW_FILTER,
)
from crossline.state.windows.program import figure_kinds
from crossline.state.windows.window_values import (
    different,
    int_mean,
    record_of,
    scan_sum,
    spread,
    streak,
    sum_float,
    sum_int,
)


@jit
def _put_integer(h: int, value: int) -> None:
    put(h, WHOLE, value)


@jit
def _put_wide(h: int, low: int, up: int) -> None:
    put(h, WHOLE, low)
    put(h, UP_REST, up)


@jit
def _put_real(h: int, value: float) -> None:
    put(h, REAL, value)


@jit
def _put_rough(h: int, value: float, off: float) -> None:
    put(h, REAL, value)
    put(h, OFF, off)


@jit
def _pointed(h: int, slot: int, c: int, g: int, which: int, extra: int) -> Any:
    k = get(h, AGGREGATE_ACC, g) if which == 0 else get(h, AGGREGATE_ACC_2, g)
    return record_of(h, slot, c, k, extra)


@jit
def _integer_of(h: int, slot: int, c: int, g: int, which: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return value_i(h, _pointed(h, slot, c, g, which, extra), get(h, AGGREGATE_COL, g))


@jit
def _real_of(h: int, slot: int, c: int, g: int, which: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return value_f(h, _pointed(h, slot, c, g, which, extra), get(h, AGGREGATE_COL, g))


@jit
def _back_ms(h: int, slot: int, c: int, g: int, i: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return clock(h, i) - clock(h, _pointed(h, slot, c, g, 0, extra))


@jit
def _whole_sum(h: int, slot: int, c: int, g: int, extra: int) -> Any:  # noqa: ARG001
    sum_int(h, slot, get(h, AGGREGATE_ACC, g), extra)
    return get(h, WHOLE), get(h, UP_REST)


@jit
def _real_sum(h: int, slot: int, c: int, g: int, extra: int) -> Any:
    return sum_float(h, slot, c, get(h, AGGREGATE_ACC, g), extra)


@jit
def _real_mean(h: int, slot: int, c: int, g: int, extra: int, n: int, total: float) -> Any:
    if math.isinf(total):  # which an average never is
        return scan_sum(h, slot, c, get(h, AGGREGATE_COL, g), extra, n)
    return total / n


@jit
def _spread(h: int, slot: int, c: int, g: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return spread(h, slot, get(h, AGGREGATE_ACC, g), extra, n)


@jit
def _decayed(h: int, slot: int, c: int, g: int, i: int, extra: int) -> Any:  # noqa: ARG001
    k = get(h, AGGREGATE_ACC, g)
    return decayed(h, deviation_at(h, slot, k), i, get(h, SD_COL, k), get(h, SD_HALF, k), extra)


@jit
def _streak(h: int, slot: int, c: int, g: int, extra: int) -> Any:
    return streak(h, slot, c, get(h, AGGREGATE_COL, g), extra)


@jit
def _different(h: int, slot: int, c: int, g: int, extra: int) -> Any:
    return different(h, slot, c, get(h, AGGREGATE_ACC, g), extra)


@jit
def _first_value(h: int, slot: int, c: int, g: int, extra: int) -> Any:
    """The first record of the window that is an entry, or the extra one."""
    r = get(h, FIRST_OF, slot, c)
    if r < 0 or enters(h, r, get(h, WINDOW_FILTER, c)):
        return r if r >= 0 else extra
    return _next_value(h, slot, c, g, r, extra)


@jit
def _next_value(h: int, slot: int, c: int, g: int, r: int, extra: int) -> Any:  # noqa: ARG001
    """The entry behind record ``r``; behind the last the extra record, behind that -1."""
    if r == extra:
        return -1
    last, entry = get(h, LAST_OF, slot, c), get(h, WINDOW_FILTER, c)
    while r != last:
        r = after(h, r)
        if enters(h, r, entry):
            return r
    return extra


@jit
def _earlier_in(h: int, slot: int, c: int, link: int, r: int) -> Any:
    """Whether the window has a record with the value of ``r`` before it."""
    at = window_at(h, slot, c)
    first, last = load(at, FIRST_OF), load(at, LAST_OF)
    r = get(h, SAME_BEFORE, r, link)
    while r >= 0 and first >= 0 and precedes(h, last, r):
        r = get(h, SAME_BEFORE, r, link)
    return r >= 0 and first >= 0 and not precedes(h, r, first)


@jit
def _times(h: int, slot: int, c: int, g: int, r: int, extra: int) -> Any:
    """How often the window has the value of ``r``, where that is the first with it; else 0."""
    link, column = get(h, DC_LINK, get(h, AGGREGATE_ACC, g)), get(h, AGGREGATE_COL, g)
    if _earlier_in(h, slot, c, link, r):
        return 0
    if r == extra:
        return 1
    times = 1 if extra >= 0 and value_i(h, extra, column) == value_i(h, r, column) else 0
    last = get(h, LAST_OF, slot, c)
    while r >= 0 and not precedes(h, last, r):
        times += 1
        r = get(h, SAME_AFTER, r, link)
    return times


TOOLS = Tools(
    put_integer=_put_integer,
    put_wide=_put_wide,
    put_real=_put_real,
    put_rough=_put_rough,
    integer_of=_integer_of,
    real_of=_real_of,
    back_ms=_back_ms,
    whole_sum=_whole_sum,
    whole_mean=int_mean,
    real_sum=_real_sum,
    real_mean=_real_mean,
    spread=_spread,
    decayed=_decayed,
    streak=_streak,
    different=_different,
    first_value=_first_value,
    next_value=_next_value,
    times=_times,
    pair_add=pair_add,
)


@jit
def _undefined(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return False


@jit
def _unread(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:
    """In the place of a way to read where there are fewer than ``_AT_ONCE``."""


_AT_ONCE = 4
_NO_WAY: tuple[int, int, Compiled] = (-1, 0, _unread)


def chosen(tools: Tools, kinds_at: int, *, panes: bool) -> Compiled:
    """The figure of a group, of those that the aggregates declare: False where it is not defined.

    ``kinds_at``: the word at which the kinds of groups stand. ``panes``: of those that are defined on panes, else on
    windows of records.
    """
    made: dict[tuple[Any, bool], Compiled] = {}  # several aggregates may be read the same way
    ways: list[tuple[int, int, Compiled]] = []
    for (name, real), kind in figure_kinds().items():
        aggregate = declared(name)
        read = aggregate.value
        if read is None or (aggregate.pane if panes else aggregate.window) is None:
            continue
        if (read, real) not in made:
            made[read, real] = jit(read(tools, real))
        ways.append((kind, aggregate.least, made[read, real]))
    found: Compiled = _undefined
    for start in range((len(ways) - 1) // _AT_ONCE * _AT_ONCE, -1, -_AT_ONCE):
        found = _one_of(kinds_at, (*ways[start : start + _AT_ONCE], *[_NO_WAY] * _AT_ONCE)[:_AT_ONCE], found)
    return found


def _one_of(kinds_at: int, ways: tuple[tuple[int, int, Compiled], ...], others: Compiled) -> Compiled:
    """Of four ways to read (kind, least number of records, how) the one of the group's kind, else ``others``.

    Four at once: were each a function around the next, compiling would take the square of the time.
    """
    (kind_0, least_0, read_0), (kind_1, least_1, read_1), (kind_2, least_2, read_2), (kind_3, least_3, read_3) = ways

    def choose(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> Any:
        kind = get(h, kinds_at, g)
        if kind == kind_0:
            if n >= least_0:
                read_0(h, at, c, g, i, extra, n)
            return n >= least_0
        if kind == kind_1:
            if n >= least_1:
                read_1(h, at, c, g, i, extra, n)
            return n >= least_1
        if kind == kind_2:
            if n >= least_2:
                read_2(h, at, c, g, i, extra, n)
            return n >= least_2
        if kind == kind_3:
            if n >= least_3:
                read_3(h, at, c, g, i, extra, n)
            return n >= least_3
        return others(h, at, c, g, i, extra, n)

    return jit(choose)


_figure = chosen(TOOLS, AGGREGATE_KIND, panes=False)


@jit
def figure(h: int, slot: int, c: int, g: int, i: int, extra: int) -> Any:
    """Put the value of group ``g``, no count, at FIGURE, and how far it may be off; False where it is undefined.

    ``i``: the record that is judged; ``extra``: a record to count in (-1: none).
    """
    put(h, OFF, 0.0)
    put(h, UP_REST, 0)
    n = get(h, COUNT_OF, slot, c) + (1 if extra >= 0 else 0)
    return _figure(h, slot, c, g, i, extra, n)
