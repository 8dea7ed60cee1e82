"""The loads and stores of ``intrinsics`` in Python, for a debugger: slow, and every one looked up among what is alive.

What is loaded is int64 or float64 of numpy, which overflow as compiled numbers do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from crossline.state.memory import bounds_check

_ALL = 2**64 - 1


def _load(kind: Any, result: Any) -> Callable[[int], Any]:
    size = ctypes.sizeof(kind)

    def load(address: int) -> Any:
        bounds_check.look_up(int(address), size, store=False)
        return result(kind.from_address(int(address)).value)

    return load


def _store(kind: Any, given: Any) -> Callable[[int, Any], None]:
    size = ctypes.sizeof(kind)

    def store(address: int, value: Any) -> None:
        bounds_check.look_up(int(address), size, store=True)
        kind.from_address(int(address)).value = given(value)

    return store


load_u8 = _load(ctypes.c_uint8, np.int64)
load_i32 = _load(ctypes.c_int32, np.int64)
load_u32 = _load(ctypes.c_uint32, np.int64)
load_i64 = load_fixed = _load(ctypes.c_int64, np.int64)
load_f64 = _load(ctypes.c_double, np.float64)
store_8 = _store(ctypes.c_uint8, int)  # ctypes keeps the low bits of integers
store_32 = _store(ctypes.c_int32, int)
store_64 = _store(ctypes.c_int64, int)
store_f64 = _store(ctypes.c_double, float)
# By the names of declared kinds.
LOADS = {"uint8": load_u8, "int32": load_i32, "uint32": load_u32, "int64": load_i64, "uint64": load_i64}
LOADS |= {"float64": load_f64}
STORES = {"uint8": store_8, "int32": store_32, "uint32": store_32, "int64": store_64, "uint64": store_64}
STORES |= {"float64": store_f64}


def like_16(address: int, byte: int) -> Any:
    """Which of the 16 bytes at ``address`` are ``byte``, as bits."""
    bounds_check.look_up(int(address), 16, store=False)
    found = ctypes.string_at(int(address), 16)
    return np.int64(sum(1 << k for k in range(16) if found[k] == byte))


def _words(address: int) -> Any:
    bounds_check.look_up(int(address), 32, store=False)
    return np.frombuffer(ctypes.string_at(int(address), 32), np.uint64).tolist()


def same_4(address: int, number: int) -> Any:
    """Which of the 4 words at ``address`` are ``number``, as bits."""
    return np.int64(sum(1 << k for k, word in enumerate(_words(address)) if word == int(number) & _ALL))


def above_4(address: int, number: int) -> Any:
    """Which of the 4 words at ``address`` are above ``number``, all as uint64, as bits."""
    return np.int64(sum(1 << k for k, word in enumerate(_words(address)) if word > int(number) & _ALL))


def lowest(bits: int) -> Any:
    """The number of the lowest bit set; some is."""
    number = int(bits)
    return np.int64((number & -number).bit_length() - 1)


def highest(bits: int) -> Any:
    """The number of the highest bit set; some is, and none of a sign."""
    return np.int64(int(bits).bit_length() - 1)


def prefetch(address: int) -> None:
    """Nothing: it only saves time."""


def zeros_on_stack(count: int) -> Any:
    """An array of ``count`` zeros, int64."""
    return np.zeros(count, np.int64)
