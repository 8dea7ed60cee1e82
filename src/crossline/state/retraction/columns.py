"""Columns that grow by rows and lose some now and then.

In the builds that look up every load and store (``state/memory/access.py``) so does a column: a number of a row
that is not there, below 0 too, is reported with the column's name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from crossline.basics.byte_slices import gathered, take_bytes
from crossline.basics.values import I64, U8
from crossline.state.batch import Bools
from crossline.state.memory.bounds_check import WATCHES, OutOfBoundsError

LEAST = 64
MANY = 1_000  # texts that are faster gathered by Arrow


class LookedUp(np.ndarray[Any, Any]):
    """Rows of a column whose numbers are looked up. What is made of them is an array as any."""

    column = ""

    @staticmethod
    def of(rows: Any, column: str) -> Any:
        """``rows``, by the name of their column."""
        found = rows.view(LookedUp)
        found.column = column
        return found

    def __getitem__(self, index: Any) -> Any:
        self._look_up(index, "load")
        return self.view(np.ndarray)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._look_up(index, "store")
        self.view(np.ndarray)[index] = value

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __str__(self) -> str:
        return str(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, LookedUp) else each for each in inputs]
        if method == "at":
            self._look_up(plain[1], "store")
        return getattr(ufunc, method)(*plain, **kwargs)

    def _look_up(self, index: Any, what: str) -> None:
        rows = np.asarray(index[0] if isinstance(index, tuple) else index)
        if not self.column or rows.dtype.kind not in "iu":
            return
        wrong = rows[(rows < 0) | (rows >= len(self))]
        if wrong.size:
            row, there = int(wrong.reshape(-1)[0]), len(self)
            text = f"{self.itemsize} bytes at {self.column}, 0 bytes into row {row} of the table, which has {there}"
            raise OutOfBoundsError(f"a {what} of {text}")


class Column:
    """Values of one type, or rows of ``width`` of them; ``name``: as it is declared."""

    def __init__(self, dtype: Any, width: int | None = None, name: str = "") -> None:
        self._name = name
        self._array = np.zeros((LEAST,) if width is None else (LEAST, width), dtype)
        self._count = 0

    @property
    def rows(self) -> Any:
        """All of them, to read or write."""
        rows = self._array[: self._count]
        return LookedUp.of(rows, self._name) if WATCHES and self._name else rows

    def extend(self, more: Any) -> None:
        """Put ``more`` behind them."""
        end = self._count + len(more)
        if end > len(self._array):
            grown = np.zeros((end + end // 2, *self._array.shape[1:]), self._array.dtype)
            grown[: self._count] = self._array[: self._count]
            self._array = grown
        self._array[self._count : end] = more
        self._count = end

    def keep(self, kept: Bools) -> None:
        """Only those that are ``kept``."""
        self._array = self._array[: self._count][kept]
        self._count = len(self._array)

    def nbytes(self) -> int:
        """Bytes held, room to grow included."""
        return int(self._array.nbytes)


class Texts:
    """Byte strings."""

    def __init__(self) -> None:
        self._pool = Column(np.uint8)
        self._offsets = Column(np.int64)
        self._offsets.extend(np.zeros(1, np.int64))

    def extend(self, data: U8, offsets: I64) -> None:
        """Put byte strings behind them; ``offsets``: one more than there are."""
        base = len(self._pool.rows)
        self._pool.extend(data[offsets[0] : offsets[-1]])
        self._offsets.extend(base + offsets[1:] - offsets[0])

    def extend_empty(self, count: int) -> None:
        """Put as many empty ones behind them."""
        self.extend(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64))

    def take(self, rows: Any) -> tuple[U8, I64]:
        """Those of ``rows``, laid end to end, and their offsets."""
        offsets = self._offsets.rows
        if len(rows) >= MANY:
            return gathered(self._pool.rows, offsets, rows)
        return take_bytes(self._pool.rows, offsets[:-1][rows], offsets[1:][rows] - offsets[:-1][rows])

    def at(self, row: int) -> bytes:
        """One of them."""
        start, end = self._offsets.rows[row : row + 2].tolist()
        item: bytes = self._pool.rows[start:end].tobytes()
        return item

    def keep(self, kept: Bools) -> None:
        """Only those that are ``kept``."""
        data, offsets = self.take(np.flatnonzero(kept))
        self._pool, self._offsets = Column(np.uint8), Column(np.int64)
        self._offsets.extend(np.zeros(1, np.int64))
        self.extend(data, offsets)

    def nbytes(self) -> int:
        """Bytes held."""
        return self._pool.nbytes() + self._offsets.nbytes()


class Fact:
    """A field of the records, null where it is missing."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._valid = Column(np.bool_)
        self._text = pa.types.is_string(kind)
        # Arrow's own word for it would load pandas.
        self._values: Column | Texts = Texts() if self._text else Column(pa.nulls(0, kind).to_numpy(False).dtype)

    def extend(self, array: pa.Array) -> None:
        """Put the values of ``array`` behind them."""
        array = array.cast(self.kind)
        self._valid.extend(array.is_valid().to_numpy(zero_copy_only=False))
        if isinstance(self._values, Texts):
            texts = [b"" if each is None else each.encode() for each in array.to_pylist()]
            self._values.extend(*joined(texts))
        else:
            filler = False if pa.types.is_boolean(self.kind) else 0
            self._values.extend(array.fill_null(filler).to_numpy(zero_copy_only=False))

    def extend_missing(self, count: int) -> None:
        """Put as many nulls behind them."""
        self.extend(pa.nulls(count, self.kind))

    def take(self, rows: Any) -> pa.Array:
        """Those of ``rows``."""
        missing = ~self._valid.rows[rows]
        if isinstance(self._values, Texts):
            data, offsets = self._values.take(rows)
            buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(np.ascontiguousarray(data))]
            texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers).cast(pa.string())
            return texts.take(pa.array(np.arange(len(missing)), mask=missing))
        return pa.array(self._values.rows[rows], self.kind, mask=missing)

    def keep(self, kept: Bools) -> None:
        """Only those that are ``kept``."""
        self._valid.keep(kept)
        self._values.keep(kept)

    def nbytes(self) -> int:
        """Bytes held."""
        return self._valid.nbytes() + self._values.nbytes()


def joined(texts: list[bytes]) -> tuple[U8, I64]:
    """Byte strings laid end to end, and their offsets."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(each) for each in texts], out=offsets[1:])
    return np.frombuffer(b"".join(texts), np.uint8), offsets
