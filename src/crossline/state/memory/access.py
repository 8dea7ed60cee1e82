"""Loads and stores at plain addresses, for compiled code.

The kernel's functions pass one address, that of a table of words (see ``layout``), where arrays would be some seventy
arguments, each with a reference count that is touched at every call: that made a record cost 14 microseconds. The
owner of the memory (``KeySpaceState``) keeps the arrays alive and large enough for the whole of a call.

There are three builds of the same functions, chosen by numba's own switches in the environment. Without any: what runs
in production. ``NUMBA_BOUNDSCHECK=1 NUMBA_OPT=1``: compiled, with every load and store looked up among what is alive
(see ``bounds_check``); optimized fully, that would compile for many minutes. ``NUMBA_DISABLE_JIT=1``: plain Python,
looked up as well, for a debugger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import config, njit

from crossline.basics.parts import PART
from crossline.state.memory import bounds_check, intrinsics, python_access

_F = TypeVar("_F", bound=Callable[..., Any])
BUILD: str = "python" if config.DISABLE_JIT else "checked" if config.BOUNDSCHECK else "plain"


def jit(function: _F) -> _F:
    """Compile ``function`` into those that call it; what Python calls is cached on disk, and all of these with it."""
    return cast("_F", njit(**PART)(function))


def inlined(function: _F) -> _F:
    """As ``jit``, for what each row runs through: it becomes part of what calls it."""
    return cast("_F", njit(forceinline=BUILD == "plain", **PART)(function))


def _of(name: str, size: int) -> Any:
    """The load or store ``name`` of ``size`` bytes, in this build."""
    if BUILD == "python":
        return getattr(python_access, name)
    plain = getattr(intrinsics, name)
    return plain if BUILD == "plain" else bounds_check.checked(name, plain, size)


# Integers of every width come and go as int64.
load_u8 = _of("load_u8", 1)
load_u32 = _of("load_u32", 4)
load_i64 = _of("load_i64", 8)
# Of what never changes while compiled code runs: once loaded, it need not be again after a store.
load_fixed = _of("load_fixed", 8)
store_64 = _of("store_64", 8)
like_16 = _of("like_16", 16)
# Which of 4 words are a number, and which are above it, as uint64.
same_4 = _of("same_4", 32)
above_4 = _of("above_4", 32)
lowest = python_access.lowest if BUILD == "python" else intrinsics.lowest
prefetch = python_access.prefetch if BUILD == "python" else intrinsics.prefetch
