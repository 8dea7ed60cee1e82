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

from crossline.basics.kernels.part import CHECKED, IN_PYTHON, Part
from crossline.state.memory import python_access

_F = TypeVar("_F", bound=Callable[..., Any])
BUILD: str = "python" if IN_PYTHON else "checked" if CHECKED else "plain"


def jit(function: _F) -> _F:
    """Compile ``function`` into those that call it; what Python calls is kept on disk, and all of these with it."""
    return function if IN_PYTHON else cast("_F", Part(lambda: _part(function), function.__qualname__))


def inlined(function: _F) -> _F:
    """As ``jit``, for what each row runs through: it becomes part of what calls it."""
    if IN_PYTHON:
        return function
    return cast("_F", Part(lambda: _part(function, forceinline=BUILD == "plain"), function.__qualname__))


def _part(function: Any, **options: Any) -> Any:
    from crossline.state.memory import compiled_access  # noqa: PLC0415 - loads numba, for who compiles

    return compiled_access.part(function, **options)


def _of(name: str) -> Any:
    """The load, store or comparison ``name``, in this build."""
    if IN_PYTHON:
        return getattr(python_access, name)

    def made() -> Any:
        from crossline.state.memory import compiled_access  # noqa: PLC0415

        return compiled_access.access(name)

    return Part(made, name)


# Integers of every width come and go as int64.
load_u8 = _of("load_u8")
load_u32 = _of("load_u32")
load_i64 = _of("load_i64")
# Of what never changes while compiled code runs: once loaded, it need not be again after a store.
load_fixed = _of("load_fixed")
store_64 = _of("store_64")
like_16 = _of("like_16")
# Which of 4 words are a number, and which are above it, as uint64.
same_4 = _of("same_4")
above_4 = _of("above_4")
lowest = _of("lowest")
highest = _of("highest")
prefetch = _of("prefetch")
# An array of so many zeros, int64, until the function returns that makes it. Kernels allocate nothing else.
zeros_on_stack = _of("zeros_on_stack")
