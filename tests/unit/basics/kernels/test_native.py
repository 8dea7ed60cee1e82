"""Kernels called at their addresses: the same results, arguments and exceptions as numba's own calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from numba import njit

from crossline.basics.kernels.compiling import compiled, stands_alone
from crossline.basics.kernels.files import Code
from crossline.basics.kernels.kernel import Kernel
from crossline.basics.kernels.native import kind_of, linkable, loaded, undefined_in
from crossline.basics.kernels.part import IN_PYTHON

pytestmark = pytest.mark.skipif(IN_PYTHON, reason="nothing is compiled")
INT64 = st.integers(-(2**63), 2**63 - 1)


def mixed(values: Any, flags: Any, factor: float, more: int, words: Any) -> float:
    total = 0.0
    for row in range(values.shape[0]):
        for column in range(values.shape[1]):
            if flags[row]:
                total += values[row, column] * factor
    for k in range(len(words)):
        total += np.float64(words[k] & np.int64(more))
    return total


def shifted(word: Any, by: int) -> Any:
    return word >> np.uint64(by)


def filled(out: Any, value: int) -> None:
    for k in range(len(out)):
        out[k] = value + k


def divided(a: int, b: int) -> int:
    return a // b


def refused(a: int) -> int:
    if a < 0:
        raise ValueError("negative", 7)
    return a


def powers(x: float) -> float:
    mantissa, exponent = math.frexp(x)
    return math.ldexp(mantissa, exponent) + 2.0**x * 0.0


def native(function: Callable[..., Any], *values: Any) -> tuple[Callable[..., Any], Code]:
    kinds = tuple(map(kind_of, values))
    code = compiled(function, kinds, {"error_model": "python"})
    return loaded(code, kinds), code


NUMBAS = {each: njit(each) for each in (mixed, shifted, filled, divided)}
ROWS = np.arange(12, dtype=np.float64).reshape(4, 3)
FLAGS, WORDS = np.array([1, 0, 1, 1], np.uint8), np.arange(5, dtype=np.int64)


def frozen(array: Any) -> Any:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        (ROWS, "<f8 2 C"),
        (np.asfortranarray(ROWS), "<f8 2 F"),
        (np.repeat(ROWS, 2, axis=1)[:, ::2], "<f8 2 A"),
        (frozen(ROWS.copy()), "<f8 2 C readonly"),
        (np.frombuffer(b"-" + ROWS.tobytes(), np.float64, offset=1).reshape(4, 3), "<f8 2 C readonly unaligned"),
    ],
)
def test_arrays_of_every_layout(rows: Any, kind: str) -> None:
    assert kind_of(rows) == kind
    given_values = (rows, FLAGS, 0.5, 6, WORDS[::2])
    assert native(mixed, *given_values)[0](*given_values) == NUMBAS[mixed](*given_values)


TWIN_VALUES = (ROWS, FLAGS, 0.5, 6, WORDS)
MIXED = native(mixed, *TWIN_VALUES)[0] if not IN_PYTHON else mixed
SHIFTED = native(shifted, np.uint64(1), 1)[0] if not IN_PYTHON else shifted
DIVIDED = native(divided, 1, 1)[0] if not IN_PYTHON else divided


@given(
    some.arrays(np.float64, some.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=5)),
    *(st.floats(), INT64, some.arrays(np.int64, st.integers(0, 9))),
)
def test_the_loaded_kernel_beside_numba(rows: Any, factor: float, more: int, words: Any) -> None:
    flags = np.arange(rows.shape[0], dtype=np.uint8) % 2
    one, other = (function(rows, flags, factor, more, words) for function in (MIXED, NUMBAS[mixed]))
    assert np.float64(one).tobytes() == np.float64(other).tobytes() or (np.isnan(one) and np.isnan(other))


@given(st.integers(0, 2**64 - 1), st.integers(0, 63), INT64, INT64.filter(bool))
def test_integers_at_their_limits(word: int, by: int, a: int, b: int) -> None:
    assert SHIFTED(np.uint64(word), by) == NUMBAS[shifted](np.uint64(word), by) == word >> by
    assert DIVIDED(a, b) == NUMBAS[divided](a, b)


def test_what_returns_nothing_writes_its_array() -> None:
    out = np.zeros(3, np.int64)
    assert native(filled, out, 5)[0](out, 5) is None
    assert out.tolist() == [5, 6, 7]


def test_exceptions_are_those_of_the_function() -> None:
    with pytest.raises(ZeroDivisionError):
        DIVIDED(1, 0)
    function, code = native(refused, 1)
    assert stands_alone(code)
    assert function(3) == 3
    with pytest.raises(ValueError, match="negative") as raised:
        function(-1)
    assert raised.value.args == ("negative", 7)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, -3e300, 5e-324, float("inf"), float("-inf"), float("nan")])
def test_what_numba_names_its_own_way_is_of_the_c_library(value: float) -> None:
    function, code = native(powers, value)
    assert stands_alone(code)
    assert repr(function(value)) == repr(float(njit(powers)(value)))


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(OverflowError, match="expected an integer of 64 bits"):
        DIVIDED(value, 1)
    with pytest.raises(OverflowError, match="not negative"):
        SHIFTED(-1, 1)


@pytest.mark.parametrize("value", [None, "1", True, object()])
def test_other_arguments_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="expected an array, an integer or a float"):
        kind_of(value)


def allocated(n: int) -> int:
    return np.zeros(n, np.int64).sum()


def test_what_allocates_needs_numba_and_is_seen_to() -> None:
    function, code = native(allocated, 3)
    assert not stands_alone(code)
    assert any(name.startswith("NRT_") for name in undefined_in(code.object_code))
    assert function(3) == 0  # here numba is loaded
    assert not linkable("numba_unpickle")
    assert not linkable("no_such_function_anywhere")
    assert linkable("memcpy")


def test_a_kernel_with_a_closure_is_refused() -> None:
    more = 3

    def closed(x: int) -> int:
        return x + more

    with pytest.raises(TypeError, match=r"variables of a closure \(more\)"):
        Kernel(closed, lambda: b"")


def paired(x: int) -> tuple[int, int]:
    return x, x


def test_what_returns_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match=r"paired: it returns .*: expected an integer of 64 bits, a float or nothing"):
        compiled(paired, ("int64",), {})
