"""How the kernels of this package are compiled, and what they say to the processor that Python has no words for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from crossline.basics.kernels.files import sources_of
from crossline.basics.kernels.kernel import Kernel
from crossline.basics.kernels.part import IN_PYTHON, Part

_PACKAGES = ("crossline.ingest.decode", "crossline.ingest.avro")  # kernels of the second call those of the first
# Counting references to arrays, an atomic step each, would take half the time of a scan; so it is switched off.
_OPTIONS = {"error_model": "numpy", "_nrt": False}
WORD_BYTES = 8  # keys and texts are compared and copied by so many
WORD_BITS = 64
WORD_MASK = (1 << WORD_BITS) - 1

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function that only reads and writes the arrays it is given and allocates none."""
    if IN_PYTHON:
        return _in_python(function)
    return cast("F", Kernel(function, _sources, _OPTIONS, lambda: _part(function)))


def part(function: F) -> F:
    """As ``kernel``, for what only kernels call: it is compiled into them."""
    return function if IN_PYTHON else cast("F", Part(lambda: _part(function), function.__qualname__))


def inlined(function: F) -> F:
    """As ``part``, into each place that calls it: a call, which hands over seven words for an array, costs more."""
    if IN_PYTHON:
        return function
    return cast("F", Part(lambda: _part(function, forceinline=True), function.__qualname__))


def _sources() -> bytes:
    return sources_of(*_PACKAGES)


def _part(function: Any, **options: Any) -> Any:
    from numba import njit  # noqa: PLC0415 - loads what takes long, for who compiles

    from crossline.basics.kernels.parts import PART  # noqa: PLC0415

    return njit(**_OPTIONS, **PART, **options)(function)


def _in_python(function: F) -> F:
    """``function`` for a debugger: numbers overflow, and zero divides, as they do in compiled code."""
    return np.errstate(all="ignore")(function)


def _intrinsic(in_python: Callable[..., Any]) -> Any:
    """The intrinsic of numba's of that name (see ``intrinsics``), or ``in_python`` where nothing is compiled."""
    return in_python if IN_PYTHON else Part(lambda: _made(in_python.__name__.removeprefix("_")), in_python.__name__)


def _made(name: str) -> Any:
    from crossline.ingest.decode.intrinsics import INTRINSICS  # noqa: PLC0415

    return INTRINSICS[name]


def _byte_at(array: Any, place: int) -> Any:
    return np.int64(array[place])


def _eight_bytes(array: Any, place: int) -> Any:
    return np.uint64(int.from_bytes(array[place : place + WORD_BYTES].tobytes(), "little"))


def _put_eight_bytes(array: Any, place: int, word: Any) -> None:
    array[place : place + WORD_BYTES] = np.frombuffer(int(word).to_bytes(WORD_BYTES, "little"), np.uint8)


def _fetch(array: Any, place: Any) -> None:
    """Nothing is sooner there in Python."""


def _folded(a: Any, b: Any) -> Any:
    product = int(a) * int(b)
    return np.uint64((product ^ product >> WORD_BITS) & WORD_MASK)


def _lowest_bit(bits: Any) -> Any:
    return np.int64((int(bits) & -int(bits)).bit_length() - 1)


# ``array[place]`` where ``place`` is not negative, which numba would look at each time.
byte_at = _intrinsic(_byte_at)
# The eight bytes of ``array`` from ``place`` on as one number, the first of them its lowest byte.
eight_bytes = _intrinsic(_eight_bytes)
# The inverse of ``eight_bytes``: write ``word`` into ``array`` from ``place`` on.
put_eight_bytes = _intrinsic(_put_eight_bytes)
# The number of the lowest bit that is set; one is.
lowest_bit = _intrinsic(_lowest_bit)
# The halves of the product of two uint64, which has 128 bits, as one number.
folded = _intrinsic(_folded)
# Fetch ``array[place]``, which is asked for soon, into the cache; any place is valid.
fetch = _intrinsic(_fetch)
