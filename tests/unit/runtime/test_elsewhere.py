"""What tasks on other machines need of a snapshot: it travels with the batch, its tables are on the store."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from crossline.basics.errors import StateError
from crossline.evaluate.bounds import Bounds
from crossline.ingest.enrich.table import FIELD, HASH, KEY
from crossline.ingest.enrich.versions import TableVersion
from crossline.io.objects.file_stores import file_store
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.snapshot.snapshot_distribution import SnapshotDistribution
from crossline.runtime.snapshot.tables import open_table


def content(folder: Path, number: int) -> TableVersion:
    """A file as the rule log's store sorts one."""
    path = folder / f"tiers-{number}.arrow"
    rows = pa.table({HASH: pa.array([1], pa.uint64()), KEY: [b"a"], f"{FIELD}tier": [f"t{number}"]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    return TableVersion({"payments": number}, str(path))


def test_tables_go_to_the_store_before_the_snapshot_that_names_them(tmp_path: Path) -> None:
    root = (tmp_path / "store").as_uri()
    store, travels = file_store(root), SnapshotDistribution(root, threading.Event())
    bare = PlanSnapshot(RuleSet(), {}, Defaults(), 2, Bounds(0))
    versions = [content(tmp_path, number) for number in range(4)]

    def snapshot(*numbers: int) -> PlanSnapshot:
        return replace(bare, tables={"tiers": tuple(versions[number] for number in numbers)})

    first = snapshot(0)
    sent = travels.for_batches(first)
    assert travels.for_batches(first) is sent
    for each in versions[:1]:
        Path(each.path).unlink()  # other machines see no file of this one
    (there,) = sent.current().tables["tiers"]
    assert there.begins == {"payments": 0}
    assert open_table(there.path).fields["tier"].to_pylist() == ["t0"]
    assert first.tables["tiers"][0].path == versions[0].path

    travels.for_backfill(snapshot(3))
    travels.for_batches(snapshot(0, 1))  # its first content is there already
    assert store.names() == ["tiers-0.arrow", "tiers-1.arrow", "tiers-3.arrow"]
    travels.for_batches(snapshot(1, 2))
    assert store.names() == ["tiers-0.arrow", "tiers-1.arrow", "tiers-2.arrow"], "the one before may be run again"
    travels.for_batches(snapshot(2))
    assert store.names() == ["tiers-1.arrow", "tiers-2.arrow"]

    again = SnapshotDistribution(root, threading.Event())  # as the next driver
    again.for_batches(snapshot(2))
    assert store.names() == ["tiers-2.arrow"]


def test_a_table_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"nothing\.arrow, a table that records are joined with, cannot be read"):
        open_table(f"{tmp_path.as_uri()}/nothing.arrow")
