"""The functions by which an aggregate computes its value in compiled code, for windows and for panes.

An aggregate's ``value`` is called with these tools, once for fields of integers and once for floats. It returns a
function for numba with the arguments below, which writes the value with one of the first three tools. It must bind the
tools that it uses to local names, since compiled code can call functions, but not methods of objects:

    def value(tools, real):
        put, one = tools.put_real, tools.real_of if real else tools.integer_of

        def middle(h, at, c, g, i, extra, n):
            put(h, (one(h, at, c, g, 0, extra, n) + one(h, at, c, g, 1, extra, n)) / 2)

        return middle

``h`` and ``at`` are the addresses of the kernel's memory and of the key's part of it. ``c``, ``g`` and ``i`` are the
numbers of the window, of the aggregate and of the judged record. ``extra`` is the number of a record to include
although the window ends before it (-1: none). ``n`` is the number of records, at least the aggregate's ``least``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Compiled = Callable[..., Any]


def _absent(*given: Any) -> Any:
    """Stands for a tool that a kernel lacks: an aggregate that needs it is not defined on that kernel."""
    raise NotImplementedError(f"this kernel cannot read {given}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Compiled functions; ``...`` stands for ``h, at, c, g``. Which of what is kept: 0 is the first, 1 the second.

    Args:
        put_integer: ``(h, value)``.
        put_wide: ``(h, low, up)``: low + up * 2^64.
        put_real: ``(h, value)``.
        put_rough: ``(h, value, off)``: a float that may be off by so much, which a deviation alone settles.
        integer_of: ``(..., which, extra, n)``: the value that ``min``, ``max``, ``first`` or ``last`` leads to.
        real_of: The same of floats.
        back_ms: ``(..., i, extra, n)``: how long before the record the one is that ``since`` or ``age`` leads to.
        whole_sum: ``(..., extra)``: the sum of integers, as low and up.
        whole_mean: ``(h, low, up, n)``: it over n, rounded once.
        real_sum: ``(..., extra)``: the sum of floats, rounded once.
        real_mean: ``(..., extra, n, total)``: it over n; where it is infinite, the real mean.
        spread: ``(..., extra, n)``: the sample deviation, and how far it may be off.
        decayed: ``(..., i, extra)``: the decayed sum at the record. Panes have none.
        streak: ``(..., extra)``: how many of the latest records meet the conditions.
        different: ``(..., extra)``: how many different values there are.
        ranked: ``(..., extra, n)``: the value of the group's rank. Windows of records have none.
        first_value: ``(..., extra)``: the first place of the values that there are. All must be gone through.
        next_value: ``(..., place, extra)``: the next place; -1 after the last.
        times: ``(..., place, extra)``: how often the value is there; 0 where another place has it.
        pair_add: ``(a, a2, b, b2)``: the sum of two pairs of floats, which no order of adding blurs.
    """

    put_integer: Compiled
    put_wide: Compiled
    put_real: Compiled
    put_rough: Compiled
    integer_of: Compiled
    real_of: Compiled
    back_ms: Compiled
    whole_sum: Compiled
    whole_mean: Compiled
    real_sum: Compiled
    real_mean: Compiled
    spread: Compiled
    streak: Compiled
    different: Compiled
    first_value: Compiled
    next_value: Compiled
    times: Compiled
    pair_add: Compiled
    decayed: Compiled = _absent
    ranked: Compiled = _absent


def one_of_them(tools: Tools, real: bool) -> Compiled:
    """The value that the first of what is kept leads to."""
    if real:
        put_real, real_of = tools.put_real, tools.real_of

        def of_reals(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
            put_real(h, real_of(h, at, c, g, 0, extra, n))

        return of_reals
    put_integer, integer_of = tools.put_integer, tools.integer_of

    def of_integers(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        put_integer(h, integer_of(h, at, c, g, 0, extra, n))

    return of_integers


def time_since(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    """How long before the record the one is that the first of what is kept leads to."""
    put, back_ms = tools.put_integer, tools.back_ms

    def since(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:
        put(h, back_ms(h, at, c, g, i, extra, n))

    return since


def value_at_rank(tools: Tools, real: bool) -> Compiled:  # noqa: ARG001
    """The value of the group's rank."""
    put, at_rank = tools.put_real, tools.ranked

    def value(h: int, at: int, c: int, g: int, i: int, extra: int, n: int) -> None:  # noqa: ARG001
        put(h, at_rank(h, at, c, g, extra, n))

    return value
