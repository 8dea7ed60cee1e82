"""Parts are compiled into what calls them: the answers are the same, and Python cannot call one by itself."""

from __future__ import annotations

from typing import Any

import pytest
from numba import njit, types
from numba.core.dispatcher import Dispatcher

from crossline.basics.kernels.parts import DOOR, PART


def doubled(x: int) -> int:
    return 2 * x


def made() -> tuple[Any, Any, Any]:
    """A part, one that calls it twice over, and what calls both."""
    lowest = njit(**PART)(doubled)

    @njit(**PART)
    def four_times(x: int) -> Any:
        return lowest(lowest(x))

    def sum_of(x: int) -> Any:
        return lowest(x) + four_times(x)

    return lowest, four_times, sum_of


@pytest.mark.parametrize("options", [DOOR, {}], ids=["door", "any"])
def test_what_calls_parts_is_linked_of_all_below_it(options: dict[str, Any]) -> None:
    _, _, sum_of = made()
    compiled = njit(**options)(sum_of)
    assert compiled(5) == 30
    assert compiled(-1) == -6


def test_what_a_door_is_linked_of_is_its_own() -> None:
    """Of two that two processes kept, functions of one name may have one symbol: neither stands for the other."""
    _, _, sum_of = made()
    door = njit(**DOOR)(sum_of)
    door(1)
    (kept,) = door.overloads.values()
    seen = {each.name for each in kept.library._final_module.functions if not each.is_declaration and shown(each)}
    assert seen
    assert not [name for name in seen if "doubled" in name or "four_times" in name]
    assert any("sum_of" in name for name in seen)


def shown(function: Any) -> bool:
    return str(function.linkage) not in {"Linkage.internal", "Linkage.private"}


def test_a_part_that_raises_does_so_through_what_calls_it() -> None:
    @njit(**PART)
    def refuses(x: int) -> int:
        if x < 0:
            raise ValueError("negative")
        return x

    @njit(**DOOR)
    def calls(x: int) -> Any:
        return refuses(x)

    assert calls(3) == 3
    with pytest.raises(ValueError, match="negative"):
        calls(-3)


def test_a_part_is_not_called_from_python() -> None:
    lowest, four_times, sum_of = made()
    njit(**DOOR)(sum_of)(1)
    for part in (lowest, four_times):
        with pytest.raises(TypeError, match="not callable"):
            part(1)


def test_a_door_is_kept_as_names_and_no_code_to_link() -> None:
    door = njit(**DOOR)(made()[2])
    assert isinstance(door, Dispatcher)
    door.compile(types.int64(types.int64))
    (result,) = door.overloads.values()
    kept = result.library._get_module_for_linking()
    blocks = [list(block.instructions) for function in kept.functions for block in function.blocks]
    assert blocks
    assert all(len(instructions) == 1 for instructions in blocks)
