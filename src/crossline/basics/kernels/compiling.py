"""Compile a kernel with numba: from a Python function to object code that llvmlite alone can load."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.extending import typeof_impl
from numba.np.numpy_support import from_dtype

from crossline.basics.kernels.files import Code
from crossline.basics.kernels.native import linkable, undefined_in
from crossline.basics.kernels.part import Part
from crossline.basics.kernels.parts import KERNEL
from crossline.basics.turns import numba_is_loaded

_SCALARS = {"int64": types.int64, "uint64": types.uint64, "float64": types.float64}
_RETURNED = {types.int64: "int64", types.uint64: "uint64", types.float64: "float64", types.none: "none"}


@typeof_impl.register(Part)
def _typeof(value: Part, purpose: Any) -> Any:  # noqa: ARG001
    """The type of a part's name in compiled code: that of what numba knows."""
    made = value.made()
    typing = cpu_target.typing_context
    typing.refresh()  # making it may have loaded modules that declare types and functions
    cpu_target.target_context.refresh()
    return typing.resolve_value_type(made)


def type_of(kind: str) -> Any:
    """Numba's type of an argument of ``kind``, as ``native.kind_of`` writes it."""
    if kind in _SCALARS:
        return _SCALARS[kind]
    dtype, dimensions, layout, *rest = kind.split()
    return types.Array(
        from_dtype(np.dtype(dtype)),
        int(dimensions),
        layout,
        readonly="readonly" in rest,
        aligned="unaligned" not in rest,
    )


def one_thread() -> AbstractContextManager[Any]:
    """What only one thread of this process is in at a time: numba's own lock."""
    lock: AbstractContextManager[Any] = global_compiler_lock
    return lock


def compiled(function: Callable[..., Any], kinds: tuple[str, ...], options: dict[str, Any]) -> Code:
    """``function`` for arguments of ``kinds``.

    Raises:
        TypeError: it returns something else than an integer of 64 bits, a float or nothing.
        numba.core.errors.NumbaError: numba does not compile it.
    """
    dispatcher = njit(**options, **KERNEL)(function)
    dispatcher.compile(tuple(map(type_of, kinds)))
    (result,) = dispatcher.overloads.values()
    returns = _RETURNED.get(types.unliteral(result.signature.return_type))
    if returns is None:
        name, found = function.__qualname__, result.signature.return_type
        raise TypeError(f"{name}: it returns {found}: expected an integer of 64 bits, a float or nothing")
    library = result.library
    library.get_pointer_to_function(result.fndesc.llvm_func_name)  # makes the object code
    return Code(library._get_compiled_object(), result.fndesc.llvm_func_name, returns)  # noqa: SLF001


def stands_alone(code: Code) -> bool:
    """Whether a process without numba has all that ``code`` refers to; otherwise it is of this process alone."""
    try:
        return all(map(linkable, undefined_in(code.object_code)))
    except ValueError:
        return False


numba_is_loaded(event)
