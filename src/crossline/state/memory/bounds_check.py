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
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from crossline.basics.parts import PART
from crossline.state.memory import intrinsics

WATCHES = bool(config.DISABLE_JIT or config.BOUNDSCHECK)
PIECES_MAX = 1024
COUNT, ADDRESS, SIZE, STORE, PIECES = range(5)
_SYMBOL = "crossline_kernel_watch"
_list = np.zeros(PIECES + 4 * PIECES_MAX, np.int64)
binding.add_symbol(_SYMBOL, _list.ctypes.data)


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


@intrinsic  # type: ignore[untyped-decorator]
def _list_address(typingctx: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        known = builder.module.globals.get(_SYMBOL)
        if known is None:
            known = ir.GlobalVariable(builder.module, ir.IntType(64), _SYMBOL)
            known.linkage = "external"
        return builder.ptrtoint(known, ir.IntType(64))

    return types.int64(), generate


_inner = njit(**PART)


@_inner
def _looked_up(address: int, size: int, store: int) -> None:
    at = _list_address()
    piece = at + 8 * PIECES
    for _ in range(intrinsics.load_i64(at + 8 * COUNT)):
        start, rows_at = intrinsics.load_i64(piece), intrinsics.load_i64(piece + 16)
        end = start + intrinsics.load_i64(piece + 8)
        if rows_at != 0:
            end = start + intrinsics.load_i64(rows_at) * intrinsics.load_i64(piece + 24)
        if start <= address and address + size <= end:
            return
        piece += 32
    intrinsics.store_64(at + 8 * ADDRESS, address)
    intrinsics.store_64(at + 8 * SIZE, size)
    intrinsics.store_64(at + 8 * STORE, store)
    raise IndexError("the kernel left its memory")


_TAKES = (types.int64, types.int64, types.int64)


def generate_look_up(context: Any, builder: Any, args: Any) -> None:
    """Have compiled code look up (address, bytes, 1 for a store) before it goes on.

    A call that stays one: put into each load and store, the loop makes half of what there is to compile.
    """
    _looked_up.compile(_TAKES)
    found = _looked_up.overloads[_TAKES]
    context.active_code_library.add_linking_library(found.library)
    function = context.declare_function(builder.module, found.fndesc)
    call, none = context.call_conv.call_function, types.none
    status, _ = call(builder, function, none, _TAKES, args, attrs=("noinline",))
    with cgutils.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)


@intrinsic  # type: ignore[untyped-decorator]
def _look_up(typingctx: Any, address: Any, size: Any, store: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        generate_look_up(context, builder, args)
        return context.get_dummy_value()

    return types.none(*_TAKES), generate


def checked(name: str, plain: Any, size: int) -> Any:
    """The load or store ``plain``, compiled, with the look-up before it."""
    if name.startswith("store"):

        @_inner
        def store(address: int, value: Any) -> None:
            _look_up(address, size, 1)
            plain(address, value)

        return store
    if not name.startswith("load"):

        @_inner
        def compared(address: int, number: int) -> Any:
            _look_up(address, size, 0)
            return plain(address, number)

        return compared

    @_inner
    def load(address: int) -> Any:
        _look_up(address, size, 0)
        return plain(address)

    return load
