"""The lake with its catalog in a real PostgreSQL and its files on a real object store."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import LocalFiles, file_store
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.maintenance.compaction import Compacted, compact
from crossline.lake.maintenance.expiry import delete_orphans, expire
from crossline.lake.state.state_snapshots import StateSnapshots
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, alert, payment
from unit.lake.state.state_kit import KeptPipeline

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres
    from dev.services.s3 import LocalS3

FAR_MS = 4 * 10**12


def catalog_of(server: LocalPostgres, user: str = "") -> str:
    given = f"host: {server.host}, port: {server.port}, user: {user or server.user}, dbname: {server.dbname}"
    return f"{{kind: postgres, {given}, password_file: {server.password_file}}}"


@pytest.fixture
def pipeline(
    postgres_server: LocalPostgres, s3_server: LocalS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SpooledPipeline:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    where = f"path: 's3://{s3_server.bucket}/{tmp_path.name}', namespace: {tmp_path.name}"
    made = SpooledPipeline(tmp_path)
    made.text = made.text.replace("lake: {", f"lake: {{{where}, catalog: {catalog_of(postgres_server)}, ")
    return made


@pytest.mark.xdist_group("postgres")
def test_batches_are_written_read_compacted_and_expired_there(pipeline: SpooledPipeline) -> None:
    for number in range(3):
        pipeline.batch([payment(number)], alerts=[alert(number)], positions=[("x", number)])
        pipeline.write_all()
    with closing(pipeline.reader()) as reader:
        (table,) = (each for each in reader.tables() if each.layout.name == "records_payments")
        assert table.table.location().startswith("s3://")
        assert compact(table, START_MS + 10 * DAY_MS) == Compacted(3, 1)
        assert expire(table, FAR_MS, 1).files > 3
        assert delete_orphans(table, FAR_MS, older_ms=0) <= 1  # a manifest that a merge of manifests left
        assert sorted(reader.records("payments").column("_record_id").to_pylist()) == ["p00000", "p00001", "p00002"]
        assert sorted(reader.rows("alerts").column("alert_id").to_pylist()) == ["alert-0", "alert-1", "alert-2"]


@pytest.mark.xdist_group("postgres")
def test_a_wrong_password_is_no_part_of_the_error(
    pipeline: SpooledPipeline, tmp_path: Path, postgres_server: LocalPostgres
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("s3cret-and-wrong")
    pipeline.text = pipeline.text.replace(str(postgres_server.password_file), str(wrong))
    with pytest.raises(StateError, match="cannot be opened") as caught:
        open_lake(pipeline.config)
    assert "s3cret" not in str(caught.value)


def test_snapshots_of_the_state_on_an_object_store(pipeline: SpooledPipeline) -> None:
    """Put beside a checkpoint on a disk, restored to one on the store."""
    kept = KeptPipeline(pipeline.root)
    kept.pipeline.text = pipeline.text
    with closing(open_lake(kept.pipeline.config)) as lake:
        kept.snapshots = StateSnapshots(lake)
        for _ in range(3):
            kept.batch()
        kept.log_list(1)
        kept.round()
        kept.batch()
        kept.now_ms += DAY_MS
        kept.round(kept.schedule(keep=1))
        assert [each.batch for each in kept.snapshots.all()] == [3]
        assert kept.snapshots.delete_orphans(FAR_MS) == 0, "the first one is gone"
        uri = f"{kept.pipeline.config.lake.path}/checkpoint"  # type: ignore[union-attr]
        kept.restoring(uri).restore(kept.last())
        held = StoredCheckpoint(uri)
        shutil.rmtree(kept.folder)
        shutil.copytree(held.folder, kept.folder)
        state = file_store(held.state_root)
        for name in state.below(""):
            LocalFiles(kept.folder / "state").put(name, state.get(name))
        held.release()
        assert kept.gone_on() == 5.0, "the fifth record of the account"
        kept.snapshots.drop(kept.snapshots.all())
        assert kept.snapshots.all() == []
