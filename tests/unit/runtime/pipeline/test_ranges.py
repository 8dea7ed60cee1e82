"""Which batches of topics the in-process runner is given: those of which nothing is for Spark to report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.runtime.pipeline.in_process_runner import ranges_of
from crossline.runtime.sources.plan_source import SourcePlan

BEGIN = {"t": {"0": 5, "1": 7}, "u": {"0": 2}}


def found(folder: Path, begin: Mapping[str, Any] | None, end: Mapping[str, Any] | None) -> Any:
    for batch, offsets in ((3, begin), (4, end)):
        path = folder / "spark" / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        line = "-" if offsets is None else orjson.dumps(offsets).decode()
        path.write_text(f"v1\n{{}}\n{line}")
    source = SourcePlan("s", None, None, None, None, client={})  # type: ignore[arg-type] # of a source only its client
    return ranges_of(str(folder), 4, [source])


def test_the_offsets_of_a_batch(tmp_path: Path) -> None:
    end = {"t": {"0": 5, "1": 9}, "u": {"0": 4}}
    assert found(tmp_path, BEGIN, end) == {"s": {("t", 0): (5, 5), ("t", 1): (7, 9), ("u", 0): (2, 4)}}


@pytest.mark.parametrize(
    "end",
    [
        {"t": {"0": 5, "1": 9, "2": 1}, "u": {"0": 4}},  # a new partition
        {"t": {"0": 5, "1": 6}, "u": {"0": 4}},  # one that ends before it began: of another topic of that name
        {"t": {"0": 5}, "u": {"0": 4}},  # one that is gone
        {"t": {"0": 5, "1": 9}},  # a topic that is gone
        None,
    ],
)
def test_what_is_sparks_to_report(tmp_path: Path, end: Mapping[str, Any] | None) -> None:
    assert found(tmp_path, BEGIN, end) is None


def test_the_first_batch_of_a_topic(tmp_path: Path) -> None:
    assert found(tmp_path, None, BEGIN) is None
