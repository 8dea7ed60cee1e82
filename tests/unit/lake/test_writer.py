"""The lake writer: every record, alert and dead letter once, with its fields, whatever is killed when."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.generate.source import read_source
from crossline.io.files import listing
from crossline.io.objects.file_stores import LocalFiles
from crossline.io.outbox.batch_spool import CHUNKS, SpooledBatch
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.lake.tables.row_filters import between, equal
from unit.lake.lake_kit import CHECKPOINT, DAY_MS, PIPELINE, START_MS, SpooledPipeline, alert, payment

TX_STREAM = Path(__file__).parents[3] / "examples" / "tx" / "stream.yaml"


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    return SpooledPipeline(tmp_path)


def test_records_have_their_fields_and_where_they_stand(pipeline: SpooledPipeline) -> None:
    first = payment(
        1, START_MS + 5_250, share=0.25, ok=True, seen="2026-01-02T03:04:05.678Z", tags=["a", "b"],
        place={"city": "Graz", "spot": {"lat": 47.07, "lon": 15.44}},
    )  # fmt: skip
    pipeline.batch([first, payment(2, START_MS)])
    pipeline.write_all()

    rows = pipeline.reader().records("payments").sort_by("_position").to_pylist()
    line = len(json.dumps(first)) + 1
    assert [row["_record_id"] for row in rows] == ["p00001", "p00002"]
    assert [row["_position"] for row in rows] == [0, line]
    assert {row["_log"].rpartition("/")[2] for row in rows} == {"0000.jsonl"}
    assert rows[0]["_event_time"] == datetime(2026, 1, 1, 0, 0, 5, 250_000, UTC)
    assert rows[1]["_ingest_time"] == datetime(2026, 1, 1, 0, 0, 5, 250_000, UTC)  # the highest event time so far
    own = {name: value for name, value in rows[0].items() if not name.startswith("_")}
    assert own == {**first, "seen": datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)}
    assert rows[1]["share"] is None
    assert rows[1]["tags"] is None
    assert rows[1]["place"]["city"] is None
    assert {row["_checkpoint"] for row in rows} == {CHECKPOINT}
    assert {row["_delivered_at"] for row in rows} == {datetime(2026, 1, 1, 0, 0, 0, 100_000, UTC)}


def test_each_batch_is_written_once_and_its_spool_file_deleted(pipeline: SpooledPipeline) -> None:
    for number in range(4):
        pipeline.batch([payment(number)], alerts=[alert(number)], positions=[("in/x", number)])
    pipeline.write_all()
    pipeline.write_all()

    reader = pipeline.reader()
    assert sorted(reader.records("payments").column("_batch").to_pylist()) == [0, 1, 2, 3]
    assert sorted(reader.rows("alerts").column("alert_id").to_pylist()) == [f"alert-{n}" for n in range(4)]
    assert pipeline.spool.numbers() == []


@pytest.mark.parametrize("slices", [[12], [4, 8], [1, 5, 6], [6, 3, 3]])
def test_a_long_list_of_chunks_is_let_go_of_without_a_loss(
    pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch, slices: list[int]
) -> None:
    """Chunks are forgotten many at once, while a slice is weighed, read, or read again after a failure."""
    monkeypatch.setattr(listing, "_FORGET_MIN", 3)
    with pipeline.writer() as writer:
        for batches in slices:
            for _ in range(batches):
                number = len(pipeline.given)
                pipeline.batch([payment(number)], alerts=[alert(number)])
            writer.before_step = _failing_once()
            with pytest.raises(LakeUnavailableError):
                writer.write_next()
            while writer.write_next() is not None:
                pass
    rows = pipeline.reader().records("payments").sort_by("_batch").to_pylist()
    assert [(row["_batch"], row["_record_id"]) for row in rows] == [(n, f"p{n:05d}") for n in range(12)]


def _failing_once() -> Callable[[str], None]:
    failures = iter([LakeUnavailableError("the catalog is away")])

    def before_step(_: str) -> None:
        for failure in failures:
            raise failure

    return before_step


def test_a_listing_that_misses_a_file_that_came_meanwhile(
    pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first list has batch 3, and lacks batch 2, which was there before it: as folders are read."""
    for number in range(4):
        pipeline.batch([payment(number)], alerts=[alert(number)])
    whole, lists = LocalFiles.names, iter([{"000000000002.batch"}, set()])

    def names(store: LocalFiles, folder: str = "") -> list[str]:
        lacking = next(lists, set())
        return [name for name in whole(store, folder) if name not in lacking]

    monkeypatch.setattr(LocalFiles, "names", names)
    pipeline.write_all()
    assert sorted(pipeline.reader().rows("alerts").column("alert_id").to_pylist()) == [f"alert-{n}" for n in range(4)]


def test_batches_that_are_missing_in_the_spool_are_reported(pipeline: SpooledPipeline) -> None:
    for number in range(6):
        pipeline.batch([payment(number)], alerts=[alert(number)])
    for number in (0, 2, 3):
        pipeline.spool.delete(number)
    with capture_logs() as logs:
        pipeline.write_all()
    assert [(each["first"], each["last"]) for each in logs if "missing in the spool" in each["event"]] == [
        (0, 0),
        (2, 3),
    ]


def test_ingest_times_go_on_after_a_restart(pipeline: SpooledPipeline) -> None:
    pipeline.batch([payment(1, START_MS + 9_000)])
    pipeline.write_all()
    pipeline.batch([payment(2, START_MS + 1_000)])
    pipeline.write_all()
    (late,) = pipeline.reader().records("payments", [equal("_record_id", "p00002")]).to_pylist()
    assert late["_ingest_time"] == datetime(2026, 1, 1, 0, 0, 9, tzinfo=UTC)


def test_a_batch_that_is_not_committed_waits(pipeline: SpooledPipeline) -> None:
    pipeline.batch([payment(1)])
    number = pipeline.batch([payment(2)])
    (pipeline.folder / "spark" / "commits" / str(number)).unlink()
    pipeline.write_all()
    assert pipeline.reader().records("payments").column("_record_id").to_pylist() == ["p00001"]
    assert pipeline.spool.numbers() == [number]


def test_duplicates_are_marked_and_dead_records_left_out(pipeline: SpooledPipeline) -> None:
    records = [payment(1), payment(1), payment(2)]
    at = [0, *(sum(len(json.dumps(each)) + 1 for each in records[:n]) for n in (1, 2))]
    log = str(pipeline.root / "in" / "0000.jsonl")
    dead = [
        DeadLetter("payments", "duplicate_id", "came before", log, at[1], b"{}", "p00001"),
        DeadLetter("payments", "time_out_of_range", "from the future", log, at[2], b"{}", None),
    ]
    pipeline.batch(records, dead=dead)
    pipeline.write_all()
    reader = pipeline.reader()
    rows = reader.records("payments").sort_by("_position").to_pylist()
    assert [(row["_record_id"], row["_duplicate"]) for row in rows] == [("p00001", False), ("p00001", True)]
    letters = reader.rows("dead_letters").sort_by("position").to_pylist()
    assert [(each["reason"], each["raw"]) for each in letters] == [
        ("duplicate_id", b"{}"),
        ("time_out_of_range", b"{}"),
    ]


def test_corrections_late_records_and_events_have_tables(pipeline: SpooledPipeline) -> None:
    correction = alert(2, corrects="alert-1", kind="correction", outcome="amended", value_before=11, caused_by="p00009")
    late = LateRecord("payments", "p00007", START_MS, START_MS + 300_000, 300_000, "in/x", 7, b"raw")
    event = {"schema_version": 1, "event": "published", "at": "2026-01-01T00:00:00.000Z", "rule_id": "burst"}
    pipeline.batch([payment(1)], alerts=[alert(1), correction], late=[late], rule_events=[event])
    pipeline.batch([payment(2)], rule_events=[event])  # all events are reported again after a restart
    pipeline.write_all()
    reader = pipeline.reader()
    assert reader.rows("alerts").column("alert_id").to_pylist() == ["alert-1"]
    (found,) = reader.rows("corrections").to_pylist()
    assert (found["corrects"], found["outcome"], found["value_before"]) == ("alert-1", "amended", 11.0)
    assert [each["lateness_ms"] for each in reader.rows("late_records").to_pylist()] == [300_000]
    assert [each["event"] for each in reader.rows("rule_events").to_pylist()] == ["published"]


def test_days_are_partitions(pipeline: SpooledPipeline) -> None:
    pipeline.batch([payment(1, START_MS + 2 * DAY_MS), payment(2, START_MS), payment(3, START_MS - 1)])
    pipeline.write_all()
    reader = pipeline.reader()
    (table,) = (each for each in reader.tables() if each.layout.name == "records_payments")
    assert len(list(table.table.scan().plan_files())) == 3
    within = [between("_event_time", START_MS, START_MS + DAY_MS)]
    assert len(list(table.table.scan(row_filter=within[0]).plan_files())) == 1
    assert reader.records("payments", within).column("_record_id").to_pylist() == ["p00002"]


def test_a_new_checkpoint_adds_what_is_new(pipeline: SpooledPipeline, tmp_path: Path) -> None:
    pipeline.batch([payment(1)], alerts=[alert(1)])
    pipeline.batch([payment(2)], alerts=[alert(2)])
    pipeline.write_all()
    again = SpooledPipeline(tmp_path, checkpoint="checkpoint-2")
    shutil.rmtree(pipeline.folder)
    again.batch([payment(1)], alerts=[alert(1)])
    again.batch([payment(2)], alerts=[alert(2)])
    again.batch([payment(3)], alerts=[alert(3)])
    again.write_all()
    reader = again.reader()
    assert sorted(reader.records("payments").column("_record_id").to_pylist()) == ["p00001", "p00002", "p00003"]
    assert sorted(reader.rows("alerts").column("alert_id").to_pylist()) == ["alert-1", "alert-2", "alert-3"]


def test_generated_records_are_made_again(tmp_path: Path) -> None:
    """By the numbers of their chunks, of the size that the run noted."""
    source = "sources:\n  payments: {kind: files, path: in/*.jsonl}\n"
    generated = "sources:\n  tx: {kind: generator, workload: tx, seed: 3, records: 25}\n"
    stream = yaml.safe_dump({"streams": {"tx": yaml.safe_load(TX_STREAM.read_text())["streams"]["payments"]}})
    start, end = PIPELINE.index("streams:"), PIPELINE.index("sources:")
    text = PIPELINE[:start] + stream + PIPELINE[end:].replace(source, generated)
    pipeline = SpooledPipeline(tmp_path, text, stream="tx")
    folder = pipeline.folder / "sources" / "tx"
    folder.mkdir(parents=True)
    (folder / "started.json").write_text('{"started_ms": 0, "chunk_records": 10}')
    for number in range(3):
        made = Delivery("pay-eu", number, checkpoint=CHECKPOINT, began_ms=START_MS)
        pipeline.spool.put(SpooledBatch(made, {"tx": {CHUNKS: (number, number + 1)}}, START_MS))
    commits = pipeline.folder / "spark" / "commits"
    commits.mkdir(parents=True)
    (commits / "2").touch()
    pipeline.write_all()
    rows = pipeline.reader().records("tx").sort_by([("_sequence", "ascending"), ("_position", "ascending")])
    lines = read_source({"workload": "tx", "seed": 3}).lines(0, 25).splitlines()
    assert rows.column("_record_id").to_pylist() == [json.loads(line)["transaction_id"] for line in lines]
    assert rows.column("_batch").to_pylist() == [0] * 10 + [1] * 10 + [2] * 5


@pytest.mark.parametrize("name", ["a#b", "what?"])
def test_a_folder_that_no_uri_can_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="expected one without # and"), SpooledPipeline(tmp_path / name).writer():
        pass


@pytest.mark.parametrize("name", ["a folder", "50%", "größe"])
def test_other_names_of_folders_will_do(tmp_path: Path, name: str) -> None:
    pipeline = SpooledPipeline(tmp_path / name)
    (tmp_path / name).mkdir()
    pipeline.batch([payment(1)], alerts=[alert(1)], positions=[("x", 1)])
    pipeline.write_all()
    assert pipeline.reader().records("payments").column("_record_id").to_pylist() == ["p00001"]
    assert list((tmp_path / name / "out" / "lake").rglob("*.parquet")), "the files are in the folder"
