"""The intrinsics of ``jit``, as numba compiles them."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.cgutils import create_struct_proxy
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def byte_at(typingctx: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """``array[place]`` where ``place`` is not negative, which numba would look at each time."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        return builder.zext(builder.load(builder.gep(data, [args[1]])), ir.IntType(64))

    return types.int64(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def eight_bytes(typingctx: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """The eight bytes of ``array`` from ``place`` on as one number, the first of them its lowest byte."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        at = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(at, align=1)

    return types.uint64(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def put_eight_bytes(typingctx: Any, array: Any, place: Any, word: Any) -> Any:  # noqa: ARG001
    """The inverse of ``eight_bytes``: write ``word`` into ``array`` from ``place`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        at = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        builder.store(args[2], at, align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the lowest bit that is set; one is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


INTRINSICS = {
    "byte_at": byte_at,
    "eight_bytes": eight_bytes,
    "put_eight_bytes": put_eight_bytes,
    "lowest_bit": lowest_bit,
}
