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


@intrinsic  # type: ignore[untyped-decorator]
def folded(typingctx: Any, a: Any, b: Any) -> Any:  # noqa: ARG001
    """The halves of the product of two uint64, which has 128 bits, as one number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        word, wide = ir.IntType(64), ir.IntType(128)
        product = builder.mul(*(builder.zext(each, wide) for each in args))
        upper = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
        return builder.xor(builder.trunc(product, word), upper)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def fetch(typingctx: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """Fetch ``array[place]``, which is asked for soon, into the cache; any place is valid."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", (byte,), ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        builder.call(function, [builder.bitcast(builder.gep(data, [args[1]]), byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


INTRINSICS = {
    "byte_at": byte_at,
    "eight_bytes": eight_bytes,
    "put_eight_bytes": put_eight_bytes,
    "lowest_bit": lowest_bit,
    "fetch": fetch,
    "folded": folded,
}
