"""Emission by hand and against naive twins: which lines meet, which emit, what is noted of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import crossline.basics.kernels.compiling
import crossline.state.memory.compiled_fields  # noqa: F401 - both declare what they compile to numba
from crossline.state.memory.access import jit
from crossline.state.memory.bounds_check import Piece, watching
from crossline.state.memory.declarations import F64, I32, I64, U8, Item, Table
from crossline.state.memory.fields import address, get, put
from crossline.state.windows.emission.bounds import bounds_in
from crossline.state.windows.emission.columns import among, cooldown_columns, in_force, members, remapped
from crossline.state.windows.emission.decision import (
    NONE_MS,
    EmissionMemory,
    emission_functions,
    is_cooling,
    still_counts,
)
from crossline.state.windows.emission.hits import hits_in
from crossline.state.windows.line_bounds import bounds_of, wide_bounds

from .naive import OPERATORS
from .naive import line as comparison


class Layout:
    """A kernel of its own, as small as one can be: one key, one class, rows that are their own records."""

    TABLE = Table()
    N_HITS = TABLE.count("N_HITS", "")
    N_EMITTED = TABLE.count("N_EMITTED", "")
    LINE_BYTES = TABLE.number("LINE_BYTES", "", "plan")
    EVERY = TABLE.array("EVERY", I64, "", "", "plan")
    REARM = TABLE.array("REARM", I64, "", "", "plan")
    COOLDOWN = TABLE.array("COOLDOWN", I64, "", "", "plan")
    COOLDOWN_COL = TABLE.array("COOLDOWN_COL", I64, "", "", "plan")
    NEGATED = TABLE.array("NEGATED", I64, "", "", "plan")
    LOW_I = TABLE.array("LOW_I", I64, "", "", "plan")
    HIGH_I = TABLE.array("HIGH_I", I64, "", "", "plan")
    LOW_REST = TABLE.array("LOW_REST", I64, "", "", "plan")
    LOW_UP = TABLE.array("LOW_UP", I64, "", "", "plan")
    HIGH_REST = TABLE.array("HIGH_REST", I64, "", "", "plan")
    HIGH_UP = TABLE.array("HIGH_UP", I64, "", "", "plan")
    LOW_F = TABLE.array("LOW_F", F64, "", "", "plan")
    HIGH_F = TABLE.array("HIGH_F", F64, "", "", "plan")
    SAT = TABLE.array("SAT", U8, "", "", "state")
    JUDGED = TABLE.array("JUDGED", I64, "", "", "state")
    EMITTED = TABLE.array("EMITTED", I64, "", "", "state")
    CLOCK_MS = TABLE.array("CLOCK_MS", I64, "", "", "batch")
    ROW_SAT = TABLE.array("ROW_SAT", U8, "", "", "batch")
    HOLDS = TABLE.array("HOLDS", U8, "", "", "batch")
    EMITS = TABLE.array("EMITS", I64, "", "", "batch")
    OUT_EMITTED = TABLE.array("OUT_EMITTED", I64, "", "", "batch")
    EMISSION = Item("", array=OUT_EMITTED)
    EMITTED_LINE = EMISSION.field("EMITTED_LINE", I32, "")
    EMITTED_KEPT = EMISSION.field("EMITTED_KEPT", I32, "")
    OUT_LINE = TABLE.array("OUT_LINE", I32, "", "", "hits")
    OUT_ROW = TABLE.array("OUT_ROW", I32, "", "", "hits")
    OUT_VALUE_I = TABLE.array("OUT_VALUE_I", I64, "", "", "hits")
    OUT_VALUE_UP = TABLE.array("OUT_VALUE_UP", I64, "", "", "hits")
    OUT_VALUE_F = TABLE.array("OUT_VALUE_F", F64, "", "", "hits")
    OUT_COUNT = TABLE.array("OUT_COUNT", I64, "", "", "hits")


AT = Layout()
SAT, JUDGED, EMITTED, CLOCK_MS, REARM, HOLDS, EMITS = (
    AT.SAT,
    AT.JUDGED,
    AT.EMITTED,
    AT.CLOCK_MS,
    AT.REARM,
    AT.HOLDS,
    AT.EMITS,
)


@jit
def _kept(h: int, row: int) -> Any:
    return row


@jit
def _clock_ms(h: int, row: int) -> Any:
    return get(h, CLOCK_MS, row)


@jit
def _satisfied_at(h: int, slot: int, byte: int) -> Any:
    return address(h, SAT, byte)


@jit
def _judged_ms(h: int, slot: int, k: int) -> Any:
    return get(h, JUDGED, k)


@jit
def _since_ms(h: int, line: int, now_ms: int) -> Any:
    return now_ms - get(h, REARM, line) + 1


@jit
def _emitted_ms(h: int, slot: int, column: int) -> Any:
    return get(h, EMITTED, column)


@jit
def _emits_at(h: int, slot: int, column: int, row: int) -> None:
    put(h, EMITTED, column, get(h, CLOCK_MS, row))


_mark, _cools, _emits = emission_functions(
    AT, EmissionMemory(_kept, _clock_ms, _satisfied_at, _judged_ms, _since_ms, _emitted_ms, _emits_at)
)
_meets_whole, _meets_real = bounds_in(AT)
_note_hit = hits_in(AT)


@njit
def _judge(h: int, rows: int, lines: int) -> None:
    for row in range(rows):
        for line in range(lines):
            emits = _emits(h, 0, line, 0, row, get(h, HOLDS, row * lines + line) != 0)
            put(h, EMITS, row * lines + line, 1 if emits else 0)
        put(h, JUDGED, 0, get(h, CLOCK_MS, row))


@njit
def _is_met_by_whole(h: int, line: int, whole: int, up: int) -> Any:
    return _meets_whole(h, line, whole, up)


@njit
def _is_met_by_real(h: int, line: int, real: float) -> Any:
    return _meets_real(h, line, real)


@njit
def _noted(h: int, line: int, row: int, whole: int, up: int, real: float, count: int) -> Any:
    return _note_hit(h, line, row, whole, up, real, count)


class Memory:
    """Its words, and the arrays that stand there."""

    def __init__(self, **arrays: Any) -> None:
        self.words = np.zeros(len(AT.TABLE.words), np.int64)
        self.arrays = {}
        for name, values in arrays.items():
            kind = AT.TABLE.words[getattr(AT, name)].dtype
            array = self.arrays[name] = np.ascontiguousarray(values, kind)
            self.words[getattr(AT, name)] = array.ctypes.data

    def run(self, function: Any, *arguments: Any) -> Any:
        """``function`` of the kernel over this memory, of which alone it may touch anything."""
        alive = {"words": self.words, **self.arrays}
        with watching([Piece(name, array.ctypes.data, array.nbytes) for name, array in alive.items()]):
            return function(int(self.words.ctypes.data), *arguments)


@dataclass(frozen=True)
class OneLine:
    every: bool
    rearm_ms: int
    cooldown_ms: int
    rule_id: str = "r"
    version: int = 1


@dataclass
class Twin:
    """One line and one key: all that ever was, looked through anew at each record."""

    line: OneLine
    seen: list[tuple[int, bool, bool]] = field(default_factory=list)  # clock, held, emitted

    def judge(self, now_ms: int, *, holds: bool) -> bool:
        emits = holds and self._is_new(now_ms) and self._is_awake(now_ms)
        self.seen.append((now_ms, holds, emits))
        return emits

    def _is_new(self, now_ms: int) -> bool:
        if self.line.every or not self.seen:
            return True
        before_ms, held, _ = self.seen[-1]
        return not held or before_ms <= now_ms - self.line.rearm_ms

    def _is_awake(self, now_ms: int) -> bool:
        emitted = [clock for clock, _, emits in self.seen if emits]
        return not emitted or not self.line.cooldown_ms or now_ms >= emitted[-1] + self.line.cooldown_ms


def memory_for(lines: Sequence[OneLine], clocks: Sequence[int], holds: Any) -> Memory:
    columns = {number: at for at, number in enumerate(i for i, line in enumerate(lines) if line.cooldown_ms)}
    width = (len(lines) + 7) // 8
    memory = Memory(
        EVERY=[line.every for line in lines],
        REARM=[line.rearm_ms for line in lines],
        COOLDOWN=[line.cooldown_ms for line in lines],
        COOLDOWN_COL=[columns.get(i, -1) for i in range(len(lines))],
        SAT=np.zeros(width),
        JUDGED=[NONE_MS],
        EMITTED=np.full(len(columns) + 1, NONE_MS),
        CLOCK_MS=clocks,
        ROW_SAT=np.zeros((len(clocks), width)),
        HOLDS=holds,
        EMITS=np.zeros((len(clocks), len(lines))),
        OUT_EMITTED=np.zeros(len(clocks) * len(lines)),
    )
    memory.words[AT.LINE_BYTES] = width
    return memory


LINES = st.builds(OneLine, st.booleans(), st.integers(0, 6), st.sampled_from([0, 0, 1, 3, 7]))


@given(st.lists(LINES, min_size=1, max_size=10), st.data())
@settings(max_examples=200)
def test_lines_emit_as_the_twin_has_it(lines: list[OneLine], data: st.DataObject) -> None:
    clocks = data.draw(st.lists(st.integers(-12, 12), min_size=1, max_size=12), "clocks")  # late ones among them
    holds = [[data.draw(st.booleans()) for _ in lines] for _ in clocks]
    memory = memory_for(lines, clocks, holds)
    memory.run(_judge, len(clocks), len(lines))
    twins = [Twin(line) for line in lines]
    expected = [
        [twin.judge(now, holds=met) for twin, met in zip(twins, row, strict=True)]
        for now, row in zip(clocks, holds, strict=True)
    ]
    assert memory.arrays["EMITS"].astype(bool).tolist() == expected
    marked = np.unpackbits(memory.arrays["ROW_SAT"], axis=1, count=len(lines), bitorder="little")
    assert marked.astype(bool).tolist() == holds
    noted = [
        (i, row) for row, emits in enumerate(expected) for i, each in enumerate(emits) if each and lines[i].cooldown_ms
    ]
    assert memory.arrays["OUT_EMITTED"].view(np.int32).reshape(-1, 2)[: memory.words[AT.N_EMITTED]].tolist() == [
        list(each) for each in noted
    ]


def test_it_emits_where_it_crosses_and_again_once_its_window_is_over() -> None:
    lines = [OneLine(every=False, rearm_ms=10, cooldown_ms=0), OneLine(every=True, rearm_ms=10, cooldown_ms=10)]
    clocks, holds = [0, 5, 6, 7, 17, 26, 27], [[1, 1], [1, 1], [0, 0], [1, 1], [1, 1], [1, 1], [1, 1]]
    memory = memory_for(lines, clocks, holds)
    memory.run(_judge, len(clocks), len(lines))
    assert memory.arrays["EMITS"].T.tolist() == [[1, 0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 0, 1]]


def test_what_never_was_neither_counts_nor_cools() -> None:
    assert not still_counts(NONE_MS, -(2**62))
    assert not is_cooling(NONE_MS, 2**62, 0)
    assert still_counts(5, 5)
    assert not still_counts(4, 5)
    assert is_cooling(5, 10, 14)
    assert not is_cooling(5, 10, 15)


WHOLE = (
    st.integers(-(2**100), 2**100) | st.integers(-3, 3) | st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1])
)
REAL = st.floats(allow_nan=False) | st.integers(-3, 3).map(float)


def bounds_memory(sign: Any, threshold: float) -> Memory:
    bounds = [bounds_of(sign, threshold)]
    return Memory(
        NEGATED=[sign == "!="],
        LOW_F=[bounds[0][2]],
        HIGH_F=[bounds[0][3]],
        **{name.upper(): array for name, array in wide_bounds(bounds).items()},
    )


@given(st.sampled_from(list(OPERATORS)), WHOLE | REAL.filter(np.isfinite), WHOLE)
@settings(max_examples=300)
def test_integers_of_any_size_meet_a_line_as_python_has_it(sign: str, threshold: float, value: int) -> None:
    low = (value + 2**63) % 2**64 - 2**63
    memory = bounds_memory(sign, threshold)
    assert bool(memory.run(_is_met_by_whole, 0, low, (value - low) >> 64)) == OPERATORS[sign](value, threshold)


@given(st.sampled_from(list(OPERATORS)), WHOLE | REAL.filter(np.isfinite), REAL)
@settings(max_examples=300)
def test_floats_meet_a_line_as_python_has_it(sign: str, threshold: float, value: float) -> None:
    memory = bounds_memory(sign, threshold)
    assert bool(memory.run(_is_met_by_real, 0, value)) == OPERATORS[sign](value, threshold)


def test_a_hit_is_noted_behind_the_others() -> None:
    names = ("OUT_LINE", "OUT_ROW", "OUT_VALUE_I", "OUT_VALUE_UP", "OUT_VALUE_F", "OUT_COUNT")
    memory = Memory(**{name: np.zeros(2) for name in names})
    assert memory.run(_noted, 3, 1, 40, -1, 0.0, 7) == 0
    assert memory.run(_noted, 2, 5, 0, 0, 2.5, 8) == 1
    assert [memory.arrays[name].tolist() for name in names] == [[3, 2], [1, 5], [40, 0], [-1, 0], [0.0, 2.5], [7, 8]]
    assert memory.words[AT.N_HITS] == 2


def test_columns_are_those_of_lines_with_a_cooldown() -> None:
    lines = [comparison(0, ">=", 1), comparison(0, ">=", 2, cooldown_ms=5), comparison(0, ">=", 3, cooldown_ms=6)]
    names = [(each.rule_id, each.version) for each in lines]
    assert cooldown_columns(lines) == {names[1]: 0, names[2]: 1}


def test_rows_are_judged_in_spans_and_up_to_a_lateness() -> None:
    ingest, late = np.array([0, 1, 4, 5, 9]), np.array([0, 3, 2, 0, 1])
    assert in_force([(1, 5), (9, 10)], None, ingest, late).tolist() == [False, True, True, False, True]
    assert in_force([(1, 5), (9, 10)], 2, ingest, late).tolist() == [False, False, True, False, True]
    assert not in_force([], None, ingest, late).any()


NAMES = st.lists(st.sampled_from([(name, 1) for name in "abcdefghijkl"]), unique=True, max_size=12).map(tuple)


@given(NAMES, NAMES, st.data())
def test_bits_go_by_the_names_of_lines(old: Any, new: Any, data: st.DataObject) -> None:
    flags = [data.draw(st.lists(st.booleans(), min_size=len(old), max_size=len(old))) for _ in range(3)]
    bits = np.packbits(np.array(flags, np.bool_).reshape(3, -1), axis=1, bitorder="little")
    found = np.unpackbits(remapped(bits, old, new), axis=1, count=len(new), bitorder="little").astype(bool)
    lines = [dict(zip(old, each, strict=True)) for each in flags]
    assert found.tolist() == [[each.get(name, False) for name in new] for each in lines]
    known = np.unpackbits(among(old, new), count=len(new), bitorder="little").astype(bool)
    assert known.tolist() == [name in old for name in new]


@pytest.mark.parametrize("lines", [0, 3, 8, 9])
def test_classes_have_the_bits_of_their_lines(lines: int) -> None:
    classes = [number % 3 for number in range(lines)]
    found = members(classes, 4)
    assert found.shape == (4, (lines + 7) // 8)
    expected = [[number == k for number in classes] for k in range(4)]
    assert np.unpackbits(found, axis=1, count=lines, bitorder="little").astype(bool).tolist() == expected
