"""Object code, loaded and called without numba: by llvmlite, at an address, with numba's convention of calls.

A compiled function gets the address for its result, the address for an exception, then its arguments. An array is its
owner (none), its size in items, the bytes of an item, the address of its data, its shape and its strides. It returns 0,
-2 (its result is None), or a positive number: the exception's address then leads to a pickle of it.
"""

from __future__ import annotations

import ctypes
import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding  # type: ignore[import-untyped]

from crossline.basics.kernels.files import Code

_OK, _NONE = 0, -2
_UNDEFINED = 0
_INT64_MIN, _INT64_END = -(1 << 63), 1 << 63
_UINT64_END = 1 << 64
# What numba's code calls by names of its own. By the standard, these return infinities, NaN and zeros as they are.
_ITS_NAMES = {"numba_ldexp": "ldexp", "numba_frexp": "frexp"}
_SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float64": ctypes.c_double}
_kinds: dict[Any, str] = {}  # of arrays of the same type, dimensions and flags
_engines: list[Any] = []  # what code lies in, for as long as the process lives


class _Raised(ctypes.Structure):
    """Where a compiled function describes an exception: a pickle, and whether its arguments stand elsewhere."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("digest", ctypes.c_void_p),
        ("unwrap", ctypes.c_void_p),
        ("elsewhere", ctypes.c_int32),
    )


def linkable(name: str) -> bool:
    """Whether any process has the function or variable ``name`` that code refers to, also without numba."""
    if name in _ITS_NAMES or name.startswith("crossline_"):
        return True
    return not name.startswith(("numba_", "NRT_", "Py", "_Py")) and hasattr(ctypes.CDLL(None), name)


def undefined_in(object_code: bytes) -> list[str]:
    """The names of the functions and variables that object code refers to and does not have.

    Raises:
        ValueError: it has no symbol table of ELF.
    """
    tables = {each.name(): each.data() for each in binding.ObjectFileRef.from_data(object_code).sections()}
    if b".symtab" not in tables or b".strtab" not in tables:
        raise ValueError("object code of another format: expected ELF")
    names = tables[b".strtab"]
    found = []
    for start, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", tables[b".symtab"]):
        if start and section == _UNDEFINED:
            found.append(names[start : names.index(b"\0", start)].decode())
    return found


def _initialized() -> Any:
    """An empty engine."""
    if not _engines:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        process = ctypes.CDLL(None)
        for its, name in _ITS_NAMES.items():
            if binding.address_of_symbol(its) is None:
                binding.add_symbol(its, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def loaded(code: Code, kinds: tuple[str, ...]) -> Callable[..., Any]:
    """The function of ``code``, which takes arguments of ``kinds`` (see ``kind_of``).

    Each is in an engine of its own: symbols of two, compiled in two processes, may have one name.

    Raises:
        ValueError: its function is not in it.
    """
    engine = _initialized()
    engine.add_object_file(binding.ObjectFileRef.from_data(code.object_code))
    engine.finalize_object()
    address = engine.get_function_address(code.symbol)
    if not address:
        raise ValueError(f"{code.symbol} is not in its object code")
    _engines.append(engine)
    return _function(address, kinds, code.returns)


def kind_of(value: Any) -> str:
    """The kind of an argument: what of it decides which code is compiled for it.

    Raises:
        TypeError: it is no array, integer or float.
    """
    if isinstance(value, np.ndarray):
        same = (value.dtype, value.ndim, value.flags.num)
        found = _kinds.get(same)
        if found is None:
            found = _kinds[same] = _kind_of_array(value)
        return found
    if isinstance(value, np.uint64):
        return "uint64"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return "int64"
    if isinstance(value, float | np.floating):
        return "float64"
    raise TypeError(f"a kernel was given {value!r}, a {type(value).__name__}: expected an array, an integer or a float")


def _kind_of_array(value: np.ndarray[Any, np.dtype[Any]]) -> str:
    flags = value.flags
    layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    rest = f"{'' if flags.writeable else ' readonly'}{'' if flags.aligned else ' unaligned'}"
    return f"{value.dtype.str} {value.ndim} {layout}{rest}"


def _int64(value: Any) -> int:
    whole = int(value)
    if not _INT64_MIN <= whole < _INT64_END:
        raise OverflowError(f"a kernel was given {whole}: expected an integer of 64 bits")
    return whole


def _uint64(value: Any) -> int:
    whole = int(value)
    if not 0 <= whole < _UINT64_END:
        raise OverflowError(f"a kernel was given {whole}: expected an integer of 64 bits, not negative")
    return whole


_TO_C: dict[str, Callable[[Any], Any]] = {"int64": _int64, "uint64": _uint64, "float64": float}


def _flat(values: tuple[Any, ...], kinds: tuple[str, ...]) -> list[Any]:
    """The arguments as the code takes them."""
    flat: list[Any] = []
    for value, kind in zip(values, kinds, strict=True):
        convert = _TO_C.get(kind)
        if convert is not None:
            flat.append(convert(value))
        else:
            flat += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
    return flat


def _function(address: int, kinds: tuple[str, ...], returns: str) -> Callable[..., Any]:
    types: list[Any] = []
    for kind in kinds:
        if kind in _SCALARS:
            types.append(_SCALARS[kind])
        else:
            types += [ctypes.c_int64] * (5 + 2 * int(kind.split()[1]))
    # PYFUNCTYPE: no other thread of Python runs meanwhile, as with what numba calls.
    code = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)(address)
    result_type = _SCALARS.get(returns, ctypes.c_int64)
    byref, raised_type = ctypes.byref, ctypes.c_void_p

    def run(*values: Any) -> Any:
        result, raised = result_type(), raised_type()
        flat = _flat(values, kinds)
        status = code(byref(result), byref(raised), *flat)
        if status == _OK:
            return result.value if returns != "none" else None
        if status == _NONE:
            return None
        raise _exception(raised.value, status)

    return run


def _exception(address: int | None, status: int) -> BaseException:
    """What the function raised."""
    if address is None:
        return RuntimeError(f"a kernel ended with status {status}")
    about = _Raised.from_address(address)
    if about.elsewhere or not about.data:
        return RuntimeError(f"a kernel raised an exception with arguments of its own, status {status}")
    exception, arguments, *_ = pickle.loads(ctypes.string_at(about.data, about.size))  # noqa: S301 - of our own code
    made: BaseException = exception(*(arguments or ()))
    return made
