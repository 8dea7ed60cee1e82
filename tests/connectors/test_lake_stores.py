"""The lake with its catalog in a real PostgreSQL and its files on a real object store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.basics.errors import StateError
from crossline.lake.catalog import open_lake
from crossline.lake.maintenance.compaction import Compacted, compact
from crossline.lake.maintenance.expiry import delete_orphans, expire
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, alert, payment

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
