"""Slices are read from data files alone, in any process, with the rows that the catalog's reader gives."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from crossline.basics.errors import StateError
from crossline.lake.replays.replay_input import LakeInput
from crossline.lake.replays.slice_files import SliceFiles
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.row_filters import equal

from .lake_kit import DAY_MS, START_MS, SpooledPipeline, payment


def written(root: Path, batches: int = 4, size: int = 25) -> tuple[SpooledPipeline, LakeInput]:
    """Records over two days, some behind others, a commit for every other batch."""
    pipeline = SpooledPipeline(root)
    for number in range(batches):
        first = number * size
        mine = [payment(n, START_MS + n * DAY_MS // 60 - n % 7 * 60_000) for n in range(first, first + size)]
        pipeline.batch(mine)
        if number % 2:
            pipeline.write_all()
    reader = pipeline.reader()
    return pipeline, LakeInput(reader, pipeline.config.streams, {"payments": ()}, slice_rows=10)


def by_catalog(given: LakeInput) -> list[pa.Table]:
    """The rows of each slice that has some, as a replay in processes reads them."""
    dealt = given.open(Path(), 1, 1 << 30).batches(1)
    return [pa.Table.from_batches([batch.replace_schema_metadata() for batch in mine]) for (mine,) in dealt]


def by_files(given: LakeInput) -> list[pa.Table]:
    """The same, read by what travels to tasks."""
    slices = given.slices(1 << 30)
    read = pickle.loads(pickle.dumps(slices.read))  # noqa: S301 - made here
    found = [[batch.replace_schema_metadata() for batch in read(each)] for each in slices.references]
    return [pa.Table.from_batches(mine) for mine in found if mine]


def test_the_same_rows_in_the_same_order(tmp_path: Path) -> None:
    _, given = written(tmp_path)
    wanted = by_catalog(given)
    assert len(wanted) > 5
    assert by_files(given) == wanted
    assert given.slices(1 << 30).records == 100


@pytest.mark.parametrize(
    "changes",
    [
        {"from_ms": START_MS + DAY_MS // 3, "to_ms": START_MS + DAY_MS},
        {"known_ms": START_MS + 101},
        {"where": {"payments": [equal("account_id", "a1")]}},
        {"from_ms": START_MS + 90 * DAY_MS},
    ],
)
def test_within_the_same_bounds(tmp_path: Path, changes: dict[str, object]) -> None:
    _, given = written(tmp_path)
    bounded = replace(given, **changes)  # type: ignore[arg-type]
    assert by_files(bounded) == by_catalog(bounded)


def test_the_address_of_the_catalog_does_not_travel(tmp_path: Path) -> None:
    _, given = written(tmp_path)
    (table,) = (each for each in given.reader.tables() if each.layout.name == "records_payments")
    own = table.table.io
    own.properties["uri"] = "postgresql+psycopg://lake:secret@db/lake"
    own.properties["s3.endpoint"] = "http://store"
    files = SliceFiles.of(LakeTable(table.layout, table.table), (), None)
    assert b"secret" not in pickle.dumps(files)
    assert files.io.properties == {"s3.endpoint": "http://store"}


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    pipeline, given = written(tmp_path)
    slices = given.slices(1 << 30)
    for path in (pipeline.root / "out" / "lake").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(StateError, match=r"\.parquet: not found; expected a data file.*start the replay again"):
        list(slices.read(slices.references[0]))
