"""The lake with its catalog behind a real server of Iceberg's REST protocol."""

from __future__ import annotations

import re
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.maintenance.compaction import Compacted, compact
from crossline.lake.maintenance.expiry import delete_orphans, expire
from crossline.lake.tables.lake_table import POSITIONS, Mark
from crossline.lake.time_travel import LakeAt
from crossline.lake.writing import follow
from crossline.lake.writing.follow import Follower, until_opened
from crossline.lake.writing.writer import LakeWriter, Written
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, alert, payment

if TYPE_CHECKING:
    from dev.services.iceberg import LocalIceberg

    from crossline.lake.reading import LakeReader

FAR_MS = 4 * 10**12
SECRET = "s3cret-token"


@pytest.fixture
def pipeline(iceberg_server: LocalIceberg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SpooledPipeline:
    monkeypatch.setenv("LAKE_TOKEN", SECRET)
    name = re.sub(r"\W", "_", tmp_path.name)
    made = SpooledPipeline(tmp_path)
    given = f"catalog: {{kind: rest, uri: '{iceberg_server.uri}', token_env: LAKE_TOKEN}}, namespace: {name}"
    made.text = made.text.replace("lake: {", f"lake: {{{given}, ")
    return made


def give(pipeline: SpooledPipeline, number: int) -> None:
    pipeline.batch([payment(number)], alerts=[alert(number)], positions=[("x", number)])


def test_batches_are_written_read_compacted_and_expired_there(pipeline: SpooledPipeline) -> None:
    for number in range(2):
        give(pipeline, number)
        pipeline.write_all()
    pipeline.text = pipeline.text.replace("share: number?", "share: number?\n      more: string?")
    pipeline.batch([payment(2, more="x")], alerts=[alert(2)], positions=[("x", 2)])
    pipeline.write_all()
    with closing(pipeline.reader()) as reader:
        (table,) = (each for each in reader.tables() if each.layout.name == "records_payments")
        files = Path(table.table.location().removeprefix("file://"))
        assert files.is_relative_to(pipeline.root / "out" / "lake")
        assert compact(table, START_MS + 10 * DAY_MS) == Compacted(3, 1)
        assert expire(table, FAR_MS, 1).files > 3
        assert delete_orphans(table, FAR_MS, older_ms=0) <= 1  # a manifest that a merge of manifests left
        assert len(list(files.rglob("data/**/*.parquet"))) == 1
        rows = reader.records("payments").sort_by("_record_id")
        assert rows.column("_record_id").to_pylist() == ["p00000", "p00001", "p00002"]
        assert rows.column("more").to_pylist() == [None, None, "x"]
    with closing(pipeline.reader()) as reader:  # after maintenance, by another client
        assert sorted(reader.rows("alerts").column("alert_id").to_pylist()) == ["alert-0", "alert-1", "alert-2"]
        mark = reader.watermark()
        assert mark is not None
        assert mark.batch == 2
        known = LakeAt(reader, START_MS + 101)  # of batches 0 and 1
        assert [row["alert_id"] for row in known.alerts()] == ["alert-0", "alert-1"]
        assert sorted(known.records("payments").column("_record_id").to_pylist()) == ["p00000", "p00001"]


def ids(reader: LakeReader) -> tuple[list[str], list[str]]:
    records = reader.records("payments").column("_record_id").to_pylist()
    return sorted(records), sorted(reader.rows("alerts").column("alert_id").to_pylist())


def test_two_live_writers_append_each_batch_once_and_see_each_others_commits(pipeline: SpooledPipeline) -> None:
    for number in range(2):
        give(pipeline, number)
    with pipeline.writer() as first, pipeline.writer() as second:
        first.slice_bytes = second.slice_bytes = 1
        between: list[Written | None] = []

        def other(_: str) -> None:
            first.before_step = lambda _: None
            between.append(second.write_next())

        first.before_step = other  # the second one commits batch 0 before the first one does
        assert first.write_next() == Written(0, 0, dict.fromkeys(rows_of(between), 0))
        assert first.write_next() is not None
        assert second.write_next() is None
        with closing(pipeline.reader()) as reader:
            assert ids(reader) == (["p00000", "p00001"], ["alert-0", "alert-1"])
        mine, theirs = (writer._tables["alerts"] for writer in (first, second))
        theirs.table.refresh()
        rows = theirs.table.scan().to_arrow().select(mine.layout.schema.names).cast(mine.layout.schema)
        assert theirs._add(rows, Mark(POSITIONS, "a", 1))
        assert not mine._add(rows, Mark(POSITIONS, "b", 1))
        assert mine.append_log(rows, "b", -1, 1)
        assert mine.table.properties[POSITIONS] == '{"a":1,"b":1}'
        assert mine.table.scan().count() == 6
    files = list((pipeline.root / "out" / "lake").rglob("alerts/data/**/*.parquet"))
    assert len(files) == 4  # two batches and two appends; the file of the commit that failed is gone


def rows_of(written: list[Written | None]) -> list[str]:
    (only,) = written
    assert only is not None
    assert sum(only.rows.values()) == 2
    return list(only.rows)


def test_a_server_that_is_away_is_named_and_waited_for(
    pipeline: SpooledPipeline, iceberg_server: LocalIceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(pipeline, 0)
    pipeline.write_all()
    for name in ("PAUSE_S", "PAUSE_S_MAX"):
        monkeypatch.setattr(follow, name, 0.05)
    stop, failed = threading.Event(), threading.Event()
    errors: list[str] = []
    original = LakeWriter.write_next

    def noting(writer: LakeWriter, upto: int | None = None) -> Written | None:
        try:
            return original(writer, upto)
        except Exception as error:
            errors.append(str(error))
            failed.set()
            raise

    monkeypatch.setattr(LakeWriter, "write_next", noting)
    with pipeline.writer() as writer:
        give(pipeline, 1)
        iceberg_server.kill()
        try:
            following = threading.Thread(target=Follower(writer, 60.0).catch_up, args=(stop,))
            following.start()
            assert failed.wait(60)
            with pytest.raises(LakeUnavailableError) as caught:
                open_lake(pipeline.config)
            opened: list[int] = []

            def when_there() -> None:
                reader = until_opened(pipeline.reader, stop, pause_s=0.01)
                assert reader is not None
                with closing(reader):
                    opened.append(reader.count("records_payments"))

            waiting = threading.Thread(target=when_there)
            waiting.start()
        finally:
            iceberg_server.start()
        following.join(60)
        waiting.join(60)
    assert str(caught.value) == (
        f"the REST catalog at {iceberg_server.uri} does not answer: Connection refused; expected a running server of "
        "Iceberg's REST protocol, see catalog.uri"
    )
    assert opened
    assert set(errors) == {str(caught.value)}
    with closing(pipeline.reader()) as reader:
        assert sorted(reader.records("payments").column("_record_id").to_pylist()) == ["p00000", "p00001"]
