"""Loads, stores and further processor instructions, as numba's intrinsics. See ``access``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

_ADDRESS = types.int64


def _load(bits: int, *, fixed: bool = False) -> Callable[[int], int]:
    """The load of an integer without a sign, as int64."""

    def load(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            value = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            if fixed:
                value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value if bits == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(_ADDRESS), generate

    made: Callable[[int], int] = intrinsic(load)
    return made


load_u8, load_u32, load_i64, load_fixed = _load(8), _load(32), _load(64), _load(64, fixed=True)


@intrinsic  # type: ignore[untyped-decorator]
def store_64(typingctx: Any, address: Any, value: Any) -> Any:  # noqa: ARG001
    """Write 64 bits at ``address``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(_ADDRESS, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def like_16(typingctx: Any, address: Any, byte: Any) -> Any:  # noqa: ARG001
    """Which of the 16 bytes at ``address`` are ``byte``, as bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        kind = ir.VectorType(ir.IntType(8), 16)
        data = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        one = builder.insert_element(
            ir.Constant(kind, ir.Undefined), builder.trunc(args[1], ir.IntType(8)), ir.IntType(32)(0)
        )
        all_ = builder.shuffle_vector(
            one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16)
        )
        bits = builder.bitcast(builder.icmp_unsigned("==", data, all_), ir.IntType(16))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(_ADDRESS, types.int64), generate


def _of_4(sign: str) -> Callable[[int, Any], Any]:
    """Which of the 4 words at an address compare so with a number, all as uint64: as bits."""

    def four(typingctx: Any, address: Any, number: Any) -> Any:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
            lanes = ir.VectorType(ir.IntType(64), 4)
            data = builder.load(builder.inttoptr(args[0], lanes.as_pointer()), align=1)
            one = builder.insert_element(ir.Constant(lanes, ir.Undefined), args[1], ir.IntType(32)(0))
            all_ = builder.shuffle_vector(
                one, ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4)
            )
            bits = builder.bitcast(builder.icmp_unsigned(sign, data, all_), ir.IntType(4))
            return builder.zext(bits, ir.IntType(64))

        return types.int64(_ADDRESS, types.int64), generate

    made: Callable[[int, Any], Any] = intrinsic(four)
    return made


same_4 = _of_4("==")
above_4 = _of_4(">")


@intrinsic  # type: ignore[untyped-decorator]
def lowest(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the lowest bit set; some is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def highest(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the highest bit set; some is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.sub(args[0].type(63), builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1)))

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typingctx: Any, address: Any) -> Any:  # noqa: ARG001
    """Prefetch the cache line at ``address``; any address is valid."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        builder.call(function, [builder.inttoptr(args[0], byte), word(1), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(_ADDRESS), generate


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def zeros_on_stack(typingctx: Any, count: Any) -> Any:  # noqa: ARG001
    """An array of ``count`` zeros, a constant: it lives until the function returns."""
    if not isinstance(count, types.IntegerLiteral):
        raise TypingError(f"zeros_on_stack: found {count}, expected a constant number of zeros")
    words = ir.ArrayType(ir.IntType(64), count.literal_value)
    array = types.Array(types.int64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        at = cgutils.alloca_once(builder, words)
        builder.store(ir.Constant(words, None), at)
        made = make_array(array)(context, builder)
        size = context.get_constant(types.intp, count.literal_value)
        width = context.get_constant(types.intp, 8)
        data = builder.bitcast(at, ir.IntType(64).as_pointer())
        populate_array(made, data=data, shape=[size], strides=[width], itemsize=width, meminfo=None)
        return made._getvalue()  # noqa: SLF001 - as numba's own code does

    return array(count), generate
