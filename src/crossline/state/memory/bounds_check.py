"""The live memory while the kernel runs. Checked builds look up every load and store in it.

Each piece is four numbers: where it begins, its bytes, and, where it grows while the kernel runs, the address of the
count of its rows (else 0) and the bytes of a row. One list has the pieces of the running call. Compiled code finds its
address by name in every process, so checked code can be cached on disk too. One thread at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from crossline.basics.kernels.part import CHECKED, IN_PYTHON

WATCHES = IN_PYTHON or CHECKED
PIECES_MAX = 1024
COUNT, ADDRESS, SIZE, STORE, PIECES = range(5)
SYMBOL = "crossline_kernel_watch"
_list = np.zeros(PIECES + 4 * PIECES_MAX, np.int64)
if WATCHES:
    from llvmlite import binding  # type: ignore[import-untyped]

    binding.add_symbol(SYMBOL, _list.ctypes.data)


class OutOfBoundsError(IndexError):
    """A load or store of the kernel outside all memory that is alive."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Memory that is alive: ``size`` bytes, or as many rows of ``width`` bytes as the count at ``rows_at``."""

    name: str
    start: int
    size: int
    rows_at: int = 0
    width: int = 0


@contextmanager
def watching(pieces: Sequence[Piece], describe: Callable[[int], str] = hex) -> Iterator[None]:
    """Within this, only ``pieces`` are alive. ``describe``: where an address is, in words.

    Raises:
        OutOfBoundsError: the kernel touched anything else.
    """
    before = _list.copy()
    rows = np.array([(p.start, p.size, p.rows_at, p.width) for p in pieces], np.int64).reshape(-1)
    _list[COUNT] = len(pieces)
    _list[PIECES : PIECES + len(rows)] = rows
    try:
        with np.errstate(all="ignore"):
            yield
    except IndexError as error:
        address, size, store = _list[ADDRESS : STORE + 1].tolist()
        text = f"a {'store' if store else 'load'} of {size} bytes {describe(address)}"
        raise OutOfBoundsError(text) from error
    finally:
        _list[:] = before


def look_up(address: int, size: int, *, store: bool) -> None:
    """In Python: raises IndexError where what is touched is not all in one piece."""
    for start, length, rows_at, width in _list[PIECES : PIECES + 4 * _list[COUNT]].reshape(-1, 4).tolist():
        end = start + length
        if rows_at:
            end = start + width * ctypes.c_int64.from_address(rows_at).value
        if start <= address and address + size <= end:
            return
    _list[[ADDRESS, SIZE, STORE]] = address, size, store
    raise IndexError(address)
