"""The aggregate functions of pane windows: how each reads its state (see ``windows/aggregate_functions.py``)."""

from __future__ import annotations

import math
from typing import Any

from crossline.programs.tools import Tools
from crossline.state.arithmetic.double_double import pair_add
from crossline.state.memory.access import inlined, jit
from crossline.state.memory.fields import get, load, put
from crossline.state.panes import layout as at
from crossline.state.panes.addresses import acc_at, enters, record_at
from crossline.state.panes.aggregates.bucket_counts import next_bucket, taken_count
from crossline.state.panes.aggregates.squares import deviation
from crossline.state.panes.aggregates.window_values import (
    count_values,
    different_of,
    float_sum_of,
    last_value_of,
    panes_of,
    quantile_of,
    records_of,
    streak_of,
    value_of,
    whole_mean,
    whole_sum_of,
    wide_sum_of,
)
from crossline.state.windows.aggregate_functions import chosen
from crossline.state.windows.program import COUNT


@jit
def _put_integer(h: int, value: int) -> None:
    put(h, at.WHOLE, value)


@jit
def _put_wide(h: int, low: int, up: int) -> None:
    put(h, at.WHOLE, low)
    put(h, at.WHOLE_UP, up)


@jit
def _put_real(h: int, value: float) -> None:
    put(h, at.REAL, value)


@jit
def _put_rough(h: int, value: float, off: float) -> None:  # noqa: ARG001 - it is what its sums say
    put(h, at.REAL, value)


@jit
def _value_at(h: int, row: int, c: int, g: int, which: int, extra: int, n: int) -> Any:
    if which == 0:
        return value_of(h, row, c, get(h, at.AGGREGATE_PART, g), get(h, at.AGGREGATE_ACC, g), extra, n)
    return value_of(h, row, c, get(h, at.AGGREGATE_PART_2, g), get(h, at.AGGREGATE_ACC_2, g), extra, n)


@jit
def _integer_of(h: int, row: int, c: int, g: int, which: int, extra: int, n: int) -> Any:
    return load(_value_at(h, row, c, g, which, extra, n), at.WHOLE_VALUE)


@jit
def _real_of(h: int, row: int, c: int, g: int, which: int, extra: int, n: int) -> Any:
    return load(_value_at(h, row, c, g, which, extra, n), at.REAL_VALUE)


@jit
def _back_ms(h: int, row: int, c: int, g: int, i: int, extra: int, n: int) -> Any:  # noqa: ARG001
    return load(record_at(h, row, i), at.RECORD_CLOCK) - load(
        last_value_of(h, row, c, get(h, at.AGGREGATE_PART, g), extra), at.WHOLE_VALUE
    )


@jit
def _whole_sum(h: int, row: int, c: int, g: int, extra: int) -> Any:  # noqa: ARG001
    return whole_sum_of(h, row, get(h, at.AGGREGATE_PART, g), acc_at(h, row, get(h, at.AGGREGATE_ACC, g)), extra)


@jit
def _real_sum(h: int, row: int, c: int, g: int, extra: int) -> Any:
    return float_sum_of(h, row, c, get(h, at.AGGREGATE_PART, g), acc_at(h, row, get(h, at.AGGREGATE_ACC, g)), extra)


@jit
def _real_mean(h: int, row: int, c: int, g: int, extra: int, n: int, total: float) -> Any:
    return wide_sum_of(h, row, c, get(h, at.AGGREGATE_PART, g), extra, n) if math.isinf(total) else total / n


@jit
def _spread(h: int, row: int, c: int, g: int, extra: int, n: int) -> Any:
    place, end = panes_of(h, row, c)
    first, ends = records_of(row, c)
    return deviation(h, row, c, get(h, at.AGGREGATE_PART, g), place, end, first, ends, extra, n), 0.0


@jit
def _streak(h: int, row: int, c: int, g: int, extra: int) -> Any:
    return streak_of(h, row, c, get(h, at.AGGREGATE_PART, g), extra)


@jit
def _different(h: int, row: int, c: int, g: int, extra: int) -> Any:
    return different_of(h, row, c, get(h, at.AGGREGATE_PART, g), extra)


@jit
def _ranked(h: int, row: int, c: int, g: int, extra: int, n: int) -> Any:
    return quantile_of(h, row, c, get(h, at.AGGREGATE_PART, g), extra, get(h, at.AGGREGATE_RANK, g), n)


@jit
def _first_value(h: int, row: int, c: int, g: int, extra: int) -> Any:
    count_values(h, row, c, get(h, at.AGGREGATE_PART, g), extra)
    return next_bucket(h, -1)


@jit
def _next_value(h: int, row: int, c: int, g: int, place: int, extra: int) -> Any:  # noqa: ARG001
    return next_bucket(h, place)


@jit
def _times(h: int, row: int, c: int, g: int, place: int, extra: int) -> Any:  # noqa: ARG001
    return taken_count(h, place)


TOOLS = Tools(
    put_integer=_put_integer,
    put_wide=_put_wide,
    put_real=_put_real,
    put_rough=_put_rough,
    integer_of=_integer_of,
    real_of=_real_of,
    back_ms=_back_ms,
    whole_sum=_whole_sum,
    whole_mean=whole_mean,
    real_sum=_real_sum,
    real_mean=_real_mean,
    spread=_spread,
    ranked=_ranked,
    streak=_streak,
    different=_different,
    first_value=_first_value,
    next_value=_next_value,
    times=_times,
    pair_add=pair_add,
)
_figure = chosen(TOOLS, at.AGGREGATE_KIND, panes=True)


@inlined
def write_figures(h: int, slot_row: int, c: int, i: int, row: int) -> None:
    """Write down the figures of cursor ``c`` at record ``i``, which is row ``row`` of the piece."""
    extra = -1
    if get(h, at.RIGHT_OPEN, c) and get(h, at.INCLUDE, c) and get(h, at.DELAY, c) == 0:
        extra = i if enters(h, record_at(h, slot_row, i), get(h, at.WINDOW_FILTER, c)) else -1
    counted = acc_at(h, slot_row, get(h, at.ACC_AT, c))  # of all running aggregates of a cursor the first
    n = load(counted, at.ACC) + (1 if extra >= 0 else 0)
    put(h, at.COUNTS, row * get(h, at.N_WINDOWS) + c, n)
    for g in range(get(h, at.AGGREGATE_AT, c), get(h, at.AGGREGATE_AT, c + 1)):
        place = row * get(h, at.ROW_FIGURES) + get(h, at.AGGREGATE_FIGURE, g)
        if get(h, at.AGGREGATE_KIND, g) == COUNT:
            put(h, at.FIGURE_I, place, n)
            put(h, at.FIGURE_DEFINED, place, 1)
            continue
        put(h, at.WHOLE_UP, 0)
        defined = _figure(h, slot_row, c, g, i, extra, n)
        if defined:
            put(h, at.FIGURE_I, place, get(h, at.WHOLE))
            put(h, at.FIGURE_UP, place, get(h, at.WHOLE_UP))
            put(h, at.FIGURE_F, place, get(h, at.REAL))
        put(h, at.FIGURE_DEFINED, place, 1 if defined else 0)
