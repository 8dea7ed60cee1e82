"""Access to declared fields: the declaration has the offset and the width, not the kernel.

``get(h, at.TAIL, slot)`` is the field of a slot, ``get(h, at.COUNT_OF, slot, c)`` that of item ``c`` of a part of its
row, ``get(h, at.OUT_ROW, n)`` item ``n`` of an array, ``get(h, at.N_HITS)`` a word; ``put`` takes the value at last.
``load`` and ``store`` are the same for an item whose address is known. ``address`` gives the address of any of these.

To numba (see ``compiled_fields``) each declared name is a type of its own, so that the code of each access is made for
its field: as few instructions as a plain load, and no other width can be meant.
"""

from __future__ import annotations

from typing import Any

from crossline.state.memory import python_access
from crossline.state.memory.declarations import Declared, Reach


def _in_python(h: int, reach: Reach, index: tuple[int, ...]) -> int:
    """The address of a value."""
    word = python_access.load_i64
    match reach.form:
        case "word" | "address":
            return h + 8 * reach.number
        case "array":
            return int(word(h + 8 * reach.number)) + reach.stride * int(index[0] if index else 0) + reach.offset
        case "row":
            return int(word(h + 8 * reach.number) + index[0] * word(h + 8 * reach.width)) + reach.offset
        case "part":
            row = int(word(h + 8 * reach.number) + index[0] * word(h + 8 * reach.width))
            start = reach.start if reach.at < 0 else int(word(h + 8 * reach.at))
            return row + start + reach.stride * int(index[1]) + reach.offset
    raise TypeError(f"{reach.name} stands anywhere: load and store it by the address of its item")


def get(h: int, place: int, *index: int) -> Any:
    """The value of a declared word, of an item of an array, or of a field of a row or of an item of its part."""
    reach = _reach(place)
    return python_access.LOADS[reach.kind.name](_in_python(h, reach, index))


def put(h: int, place: int, *index_and_value: Any) -> None:
    """Write what ``get`` reads; the value comes last."""
    reach, (*index, value) = _reach(place), index_and_value
    python_access.STORES[reach.kind.name](_in_python(h, reach, tuple(index)), value)


def address(h: int, place: int, *index: int) -> Any:
    """Where it stands; without index, where an array, rows, bytes or a table begin."""
    reach = _reach(place)
    if reach.form == "address":
        return python_access.load_i64(h + 8 * reach.number)
    return _in_python(h, reach, index)


def load(item: int, place: int) -> Any:
    """The value of a field of the row or item at address ``item``."""
    reach = _reach(place)
    return python_access.LOADS[reach.kind.name](item + reach.offset)


def store(item: int, place: int, value: Any) -> None:
    """Write what ``load`` reads."""
    reach = _reach(place)
    python_access.STORES[reach.kind.name](item + reach.offset, value)


def _reach(place: int) -> Reach:
    if not isinstance(place, Declared):
        raise TypeError(f"{place!r} is not declared")
    return place.reach
