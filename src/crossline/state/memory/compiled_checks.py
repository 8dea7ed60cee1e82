"""The look-up of ``bounds_check`` in compiled code, before every load and store of a checked build."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from crossline.basics.kernels.parts import PART
from crossline.state.memory import intrinsics
from crossline.state.memory.bounds_check import ADDRESS, COUNT, PIECES, SIZE, STORE, SYMBOL


@intrinsic  # type: ignore[untyped-decorator]
def _list_address(typingctx: Any) -> Any:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        known = builder.module.globals.get(SYMBOL)
        if known is None:
            known = ir.GlobalVariable(builder.module, ir.IntType(64), SYMBOL)
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
