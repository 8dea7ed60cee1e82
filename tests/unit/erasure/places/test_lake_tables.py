"""Tables of the lake: rows go, their bytes go, other rows stay, beside writers and over kills."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.erasure.place import Counts
from crossline.erasure.places.lake_tables import LakeTablePlace
from crossline.erasure.subject import Key, Subject
from crossline.lake.reading import LakeReader
from crossline.lake.tables.table_layouts import records_table
from crossline.lake.training.training_table import TrainingTable, training_tables
from unit.erasure.traces import SALT, files_with, texts_in
from unit.lake.lake_kit import START_MS, SpooledPipeline, alert, payment

PERSON = "acct-jo@example"


class Killed(BaseException):
    """The process ends here."""


def subject() -> Subject:
    return Subject((Key("account_id", PERSON),), SALT)


def records(first: int) -> list[dict[str, object]]:
    """Ten records, of which numbers 3 and 7 are the person's; their days differ."""
    mine = [payment(first + n, START_MS + (n % 2) * 86_400_000, place={"city": "x"}) for n in range(10)]
    for n in (3, 7):
        mine[n]["account_id"] = PERSON
    return mine


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    made = SpooledPipeline(tmp_path)
    for batch in range(2):
        at = 10 * batch
        others = alert(at + 1, evidence={"count": 2, "record_ids": [f"p{at + 1:05d}", f"p{at + 3:05d}"]})
        own = alert(at + 3, key={"account_id": PERSON}, message=f"{PERSON} paid often")
        made.batch(records(at), alerts=[others, own])
    made.write_all()
    return made


def places(reader: LakeReader, between: Callable[[str], None] = lambda _: None) -> list[LakeTablePlace]:
    mine = {records_table("payments"): "payments"}
    return [LakeTablePlace(each, mine.get(each.layout.name), between, 0) for each in reader.tables()]


def erase(reader: LakeReader, mine: Subject, between: Callable[[str], None] = lambda _: None) -> Counts:
    all_of = places(reader, between)
    for _ in range(2):
        for each in all_of:
            each.find(mine)
    total = Counts()
    for each in all_of:
        total += each.erase(mine)
    return total


def test_rows_of_training_sets_go(pipeline: SpooledPipeline, tmp_path: Path) -> None:
    """They are in no list of the lake's tables, and name the person by the ids of records alone."""
    ids = [f"p{number:05d}" for number in range(20)]
    times = pa.array([START_MS * 1_000] * 20).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"record_id": ids, "event_time": times, "payments_10m": list(range(20))})
    pq.write_table(rows, tmp_path / "rows.parquet")
    reader, mine = pipeline.reader(), subject()
    table = TrainingTable(reader.lake, "training", frozenset(), 100)
    table.replace(tmp_path / "rows.parquet", {})
    erase(reader, mine)
    (place,) = [LakeTablePlace(each, None, orphaned_ms=0) for each in training_tables(reader.lake)]
    assert place.erase(mine).gone == 4
    left = place.table.table.scan().to_arrow().to_pylist()
    assert sorted(row["payments_10m"] for row in left) == [n for n in range(20) if n not in {3, 7, 13, 17}]
    folder = pipeline.root / "out" / "lake" / reader.lake.namespace / "training"
    assert not files_with(folder, "p00013")
    table.replace(tmp_path / "rows.parquet", {})
    assert len(place.table.table.refresh().scan().to_arrow()) == 20


def test_rows_and_bytes_go_and_others_stay(pipeline: SpooledPipeline) -> None:
    lake = pipeline.root / "out" / "lake"
    assert files_with(lake, PERSON), "not tested"
    reader, mine = pipeline.reader(), subject()
    before = reader.records("payments")
    counts = erase(reader, mine)
    assert (counts.gone, counts.changed) == (4 + 2, 2)
    after = reader.records("payments")
    ids = {"p00003", "p00007", "p00013", "p00017"}
    assert mine.ids["payments"] == ids
    kept = [row for row in before.to_pylist() if row["_record_id"] not in ids]
    assert sorted(after.to_pylist(), key=lambda row: row["_record_id"]) == sorted(
        kept, key=lambda row: row["_record_id"]
    )
    (first, second) = sorted(reader.rows("alerts").to_pylist(), key=lambda row: row["alert_id"])
    assert first["record_ids"] == ["p00001", mine.pseudonym("p00003")]
    assert '"count":2' in first["body"], "figures stay"
    assert second["record_id"] == "p00011"
    assert not files_with(lake, PERSON, *ids), "files, bounds in manifests, and what is packed"
    for each in places(reader):
        assert each.table.table.refresh().metadata.snapshots[1:] == []
        assert not each.find(mine).found
    again = erase(reader, subject())
    assert not again.found


def test_a_writer_beside_it_loses_nothing(pipeline: SpooledPipeline) -> None:
    steps: list[str] = []

    def write(step: str) -> None:
        steps.append(step)
        if steps.count("written") == 1 and step == "written":
            pipeline.batch([payment(100), payment(101)])
            pipeline.write_all()

    reader = pipeline.reader()
    erase(reader, subject(), write)
    assert steps.count("written") == 2 + 1, "a commit met another one, and was repeated"
    found = reader.records("payments").column("_record_id").to_pylist()
    assert len(found) == 20 - 4 + 2
    assert {"p00100", "p00101"} <= set(found)
    assert PERSON not in texts_in(reader.records("payments"))


def test_a_kill_between_any_two_steps_is_finished_by_a_further_run(tmp_path: Path) -> None:
    """Steps are counted once; then a run is killed at each of some of them, one after the other, on one lake."""
    steps: list[str] = []
    made = SpooledPipeline(tmp_path / "counted")
    made.batch(records(0))
    made.write_all()
    (of_records,) = (each for each in places(made.reader(), steps.append) if each.stream)
    of_records.erase(subject())
    assert set(steps) == {"file", "written", "manifests", "deleted", "expired"}
    made = SpooledPipeline(tmp_path / "killed")
    made.batch(records(0))
    made.write_all()
    mine = subject()
    for kill in ("written", "file", "manifests", "deleted", "expired"):

        def end(step: str, at: str = kill) -> None:
            if step == at:
                raise Killed

        (of_records,) = (each for each in places(made.reader(), end) if each.stream)
        of_records.find(mine)
        with pytest.raises(Killed):
            of_records.erase(mine)
    (of_records,) = (each for each in places(made.reader()) if each.stream)
    of_records.erase(mine)
    assert not files_with(tmp_path / "killed" / "out" / "lake", PERSON, *mine.ids["payments"])
    assert len(made.reader().records("payments")) == 8
