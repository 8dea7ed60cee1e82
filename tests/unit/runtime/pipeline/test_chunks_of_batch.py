"""Which chunks a batch of files has, by Spark's log; what is not known whole is Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.io.chunks import ChunkRef
from crossline.runtime.pipeline.stage_processes import chunks_of_batch
from crossline.runtime.sources.plan_source import SourcePlan


def chunk(number: int) -> ChunkRef:
    return ChunkRef(number, "f", number * 10, number * 10 + 10)


class Listed:
    """Chunks ``first`` to ``last`` - 1 are in the list."""

    def __init__(self, first: int, last: int) -> None:
        self._known = range(first, last)

    def __call__(self, first: int, last: int) -> Sequence[ChunkRef]:
        return [chunk(number) for number in range(first, last) if number in self._known]


def found(folder: Path, *sources: tuple[Any, Any, Any], batch: int = 4) -> Any:
    """``sources``: of each where the batch begins and ends, and its list."""
    for number, at in ((batch - 1, 0), (batch, 1)):
        path = folder / "spark" / "offsets" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        marks = ["-" if each[at] is None else orjson.dumps({"chunk": each[at]}).decode() for each in sources]
        path.write_text("\n".join(["v1", "{}", *marks]))
    plans = [
        SourcePlan(f"s{number}", None, None, None, None, chunks=listed)  # type: ignore[arg-type] # only this is used
        for number, (_, _, listed) in enumerate(sources)
    ]
    return chunks_of_batch(str(folder), batch, plans)


def test_the_chunks_of_a_batch(tmp_path: Path) -> None:
    assert found(tmp_path, (2, 4, Listed(0, 9)), (7, 7, Listed(0, 9))) == {"s0": [chunk(2), chunk(3)], "s1": []}


def test_a_source_that_gave_nothing_before(tmp_path: Path) -> None:
    assert found(tmp_path, (None, 1, Listed(0, 9)), (None, None, Listed(0, 0))) == {"s0": [chunk(0)], "s1": []}


@pytest.mark.parametrize("listed", [Listed(0, 3), Listed(3, 9), None])
def test_chunks_that_are_not_all_known_are_sparks(tmp_path: Path, listed: Listed | None) -> None:
    assert found(tmp_path, (2, 4, listed)) is None


def test_an_offset_that_goes_back_is_sparks(tmp_path: Path) -> None:
    assert found(tmp_path, (4, 2, Listed(0, 9))) is None


def test_the_first_batch_is_sparks(tmp_path: Path) -> None:
    assert found(tmp_path, (None, 4, Listed(0, 9)), batch=0) is None


def test_offsets_that_are_not_there_are_sparks(tmp_path: Path) -> None:
    assert chunks_of_batch(str(tmp_path), 4, []) is None
