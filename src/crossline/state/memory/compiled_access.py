"""What ``access`` declares, as numba compiles it; loading this also declares the fields to numba."""

from __future__ import annotations

from typing import Any

from numba import njit

from crossline.basics.kernels.part import CHECKED
from crossline.basics.kernels.parts import PART
from crossline.state.memory import compiled_checks, compiled_fields, intrinsics

__all__ = ["access", "compiled_fields", "part"]
# The bytes that each touches; what is not here touches none.
_BYTES = {"load_u8": 1, "load_u32": 4, "load_i64": 8, "load_fixed": 8, "store_64": 8, "like_16": 16}
_BYTES |= {"same_4": 32, "above_4": 32}


def part(function: Any, **options: Any) -> Any:
    """``function``, compiled into those that call it. It allocates nothing: no process without numba could free it."""
    return njit(**options, _nrt=False, **PART)(function)


def access(name: str) -> Any:
    """The load, store or other instruction ``name``, in this build."""
    plain = getattr(intrinsics, name)
    return plain if not CHECKED or name not in _BYTES else compiled_checks.checked(name, plain, _BYTES[name])
