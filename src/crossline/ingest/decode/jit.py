"""How the kernels of this package are compiled, and what they say to the processor that Python has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, njit, types
from numba.core.cgutils import create_struct_proxy
from numba.extending import intrinsic

from crossline.basics.compiling import shared
from crossline.basics.parts import PART

_PACKAGES = ("crossline.ingest.decode", "crossline.ingest.avro")  # kernels of the second call those of the first
WORD_BYTES = 8  # keys and texts are compared and copied by so many

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function that only reads and writes the arrays it is given and allocates none.

    Counting references to those arrays, an atomic step each, would take half the time of a scan; so it is switched off.
    """
    if config.DISABLE_JIT:
        return _in_python(function)
    return cast("F", shared(njit(cache=True, error_model="numpy", _nrt=False)(function), *_PACKAGES))


def part(function: F) -> F:
    """As ``kernel``, for what only kernels call: it is compiled into them."""
    return cast("F", njit(error_model="numpy", _nrt=False, **PART)(function))


def making_kernel(function: F) -> F:
    """Compile a function that also makes new arrays."""
    if config.DISABLE_JIT:
        return _in_python(function)
    return cast("F", shared(njit(cache=True, error_model="numpy")(function), *_PACKAGES))


def _in_python(function: F) -> F:
    """``function`` for a debugger: numbers overflow, and zero divides, as they do in compiled code."""
    return np.errstate(all="ignore")(function)


def _intrinsic(in_python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """An intrinsic of numba's, or ``in_python`` where nothing is compiled."""
    return lambda compiled: in_python if config.DISABLE_JIT else intrinsic(compiled)


def _byte_at(array: Any, place: int) -> Any:
    return np.int64(array[place])


def _eight_bytes(array: Any, place: int) -> Any:
    return np.uint64(int.from_bytes(array[place : place + WORD_BYTES].tobytes(), "little"))


def _put_eight_bytes(array: Any, place: int, word: Any) -> None:
    array[place : place + WORD_BYTES] = np.frombuffer(int(word).to_bytes(WORD_BYTES, "little"), np.uint8)


def _lowest_bit(bits: Any) -> Any:
    return np.int64((int(bits) & -int(bits)).bit_length() - 1)


@_intrinsic(_byte_at)
def byte_at(typingctx: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """``array[place]`` where ``place`` is not negative, which numba would look at each time."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        return builder.zext(builder.load(builder.gep(data, [args[1]])), ir.IntType(64))

    return types.int64(array, types.intp), generate


@_intrinsic(_eight_bytes)
def eight_bytes(typingctx: Any, array: Any, place: Any) -> Any:  # noqa: ARG001
    """The eight bytes of ``array`` from ``place`` on as one number, the first of them its lowest byte."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        at = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(at, align=1)

    return types.uint64(array, types.intp), generate


@_intrinsic(_put_eight_bytes)
def put_eight_bytes(typingctx: Any, array: Any, place: Any, word: Any) -> Any:  # noqa: ARG001
    """The inverse of ``eight_bytes``: write ``word`` into ``array`` from ``place`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = create_struct_proxy(signature.args[0])(context, builder, value=args[0]).data
        at = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        builder.store(args[2], at, align=1)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint64), generate


@_intrinsic(_lowest_bit)
def lowest_bit(typingctx: Any, bits: Any) -> Any:  # noqa: ARG001
    """The number of the lowest bit that is set; one is."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:  # noqa: ARG001
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate
