"""Reading and writing by declared names: of each type what was written comes back, and nothing else can be meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

import crossline.basics.kernels.compiling
import crossline.state.memory.compiled_fields  # noqa: F401 - both declare what they compile to numba
from crossline.state.memory.access import BUILD
from crossline.state.memory.declarations import F64, I32, I64, U8, U32, Item, Row, Table
from crossline.state.memory.fields import address, get, load, put, store

pytestmark = pytest.mark.skipif(BUILD != "plain", reason="reads here bypass the bounds check")

TABLE = Table()
COUNT = TABLE.count("COUNT", "a count")
NUMBER = TABLE.number("NUMBER", "a number", "plan")
ITEMS = TABLE.array("ITEMS", I32, "4", "items", "batch")
REALS = TABLE.array("REALS", F64, "2", "floats", "batch")
ROWS = TABLE.pool("ROWS", "rows")
ROW_BYTES = TABLE.number("ROW_BYTES", "bytes of a row", "plan")
PARTS = TABLE.number("PARTS", "items of the part", "plan")
ROW = Row("a row", even=4, pool=ROWS, width=ROW_BYTES)
FLAG = ROW.field("FLAG", U8, "a byte")
WIDE = ROW.field("WIDE", U32, "32 bits without a sign")
_part = Item("part")
SMALL = _part.field("SMALL", I32, "32 bits with a sign")
LARGE = _part.field("LARGE", I64, "64 bits")
PART_AT = ROW.part(TABLE, "PART", _part, PARTS)


class Memory:
    """Two rows with two items each, and nothing in them."""

    def __init__(self) -> None:
        self.words = np.zeros(len(TABLE.words), np.int64)
        self.words[PARTS] = 2
        self.words[ROW_BYTES] = ROW.lay_out(self.words)
        self.arrays = {ITEMS: np.zeros(4, np.int32), REALS: np.zeros(2), ROWS: np.zeros(64, np.uint8)}
        for name, array in self.arrays.items():
            self.words[name] = array.ctypes.data

    @property
    def h(self) -> int:
        return int(self.words.ctypes.data)


def test_a_row_is_laid_out_as_declared() -> None:
    memory = Memory()
    assert (memory.words[ROW_BYTES], memory.words[PART_AT]) == (32, 5)
    assert (int(FLAG), int(WIDE), int(SMALL), int(LARGE)) == (0, 1, 0, 4)


@njit
def _written(h: int) -> Any:
    put(h, COUNT, get(h, COUNT) + 7)
    put(h, ITEMS, 3, -5)
    put(h, REALS, 1, 0.5)
    put(h, FLAG, 1, 300)
    put(h, WIDE, 1, -1)
    put(h, SMALL, 1, 1, -2)
    put(h, LARGE, 1, 1, 1 << 40)
    part = address(h, SMALL, 1, 0)
    store(part, LARGE, 11)
    return get(h, ITEMS, 3), get(h, REALS, 1), get(h, FLAG, 1), get(h, WIDE, 1), get(h, SMALL, 1, 1), load(part, LARGE)


@pytest.mark.parametrize("function", [_written, _written.py_func], ids=["compiled", "python"])
def test_what_is_put_is_got_at_its_width(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crossline.state.memory.bounds_check.look_up", lambda *_, **__: None)
    memory = Memory()
    assert [float(each) for each in function(memory.h)] == [-5, 0.5, 300 - 256, 2**32 - 1, -2, 11]
    assert memory.words[COUNT] == 7
    assert memory.arrays[ITEMS].tolist() == [0, 0, 0, -5]
    row = memory.arrays[ROWS][32:64].tobytes()
    assert row[0] == 44
    assert int.from_bytes(row[1:5], "little") == 2**32 - 1
    assert int.from_bytes(row[5 + 4 : 5 + 12], "little") == 11, "the first item of the part, from its declared offset"
    assert int.from_bytes(row[17:21], "little", signed=True) == -2
    assert int.from_bytes(row[21:29], "little") == 1 << 40
    assert not memory.arrays[ROWS][:32].any(), "the other row"


@njit
def _a_float_as_an_integer(h: int) -> None:
    put(h, ITEMS, 0, 0.5)


@njit
def _what_stays(h: int) -> None:
    put(h, NUMBER, 1)


@njit
def _too_few_numbers(h: int) -> Any:
    return get(h, SMALL, 0)


@njit
def _an_address(h: int) -> Any:
    return get(h, ROWS)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (_a_float_as_an_integer, "put ITEMS: found float64, expected int32"),
        (_what_stays, "put NUMBER: it stays as it is while the kernel runs"),
        (_too_few_numbers, "get PART.SMALL, with 1 numbers"),
        (_an_address, "get ROWS: it is an address"),
    ],
)
def test_what_cannot_be_meant_is_not_compiled(function: Any, text: str) -> None:
    with pytest.raises(TypingError, match=text):
        function(Memory().h)
