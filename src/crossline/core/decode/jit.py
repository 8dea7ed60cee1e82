"""How the kernels of this package are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile a function that only reads and writes the arrays it is given and allocates none.

    Counting references to those arrays, an atomic step each, would take half the time of a scan; so it is switched off.
    """
    return cast("F", njit(cache=True, error_model="numpy", _nrt=False)(function))


def making_kernel(function: F) -> F:
    """Compile a function that also makes new arrays."""
    return cast("F", njit(cache=True, error_model="numpy")(function))
