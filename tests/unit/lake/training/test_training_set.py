"""A training set by the command: figures and labels of the lake, in a file and in a table that other engines read."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction

from crossline.basics.errors import UsageError
from crossline.cli.main import run_command
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.training import training_table
from crossline.lake.training.training_table import TrainingTable
from crossline.serve.cases.cases import FILE, Cases
from unit.lake.lake_kit import DAY_MS, START_MS, SpooledPipeline, payment
from unit.lake.test_engines import duck
from unit.lake.training.served import serve

FIGURES = """\
source_topic: payments
figures:
  payments_10m: {count: true, group_by: account_id, window: 10m}
  last_seen: {last: seen, group_by: account_id, window: 1h}
"""
LABELS = "id,is_fraud,known_at\np00001,1,2026-01-01T12:00:00Z\np00002,1,2026-01-05T12:00:00Z\n"
COUNT = 30
STEP_MS = 60_000


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> SpooledPipeline:
    """Payments a minute apart; of each third one the label came 20 days after it, p00000 is revised after 40 days."""
    made = SpooledPipeline(tmp_path_factory.mktemp("training"))
    serve(made)
    made.batch([payment(number, START_MS + STEP_MS * number) for number in range(COUNT)] + [payment(3, START_MS)])
    for name, text in (("pipeline.yaml", made.text), ("figures.yaml", FIGURES)):
        (made.root / name).write_text(text)
    (made.root / "rules").mkdir()
    made.write_all()
    with closing(Cases(made.root / "out" / "serve" / FILE, clock_ms=lambda: START_MS + 50 * DAY_MS)) as cases:
        for number in range(0, COUNT, 3):
            known_ms = START_MS + STEP_MS * number + 20 * DAY_MS
            cases.put_label("payments", f"p{number:05d}", number % 2 == 0, who="ada", known_ms=known_ms)
        cases.put_label("payments", "p00000", False, who="ada", known_ms=START_MS + 40 * DAY_MS)
        cases.put_label("logins", "p00001", True, who="ada", known_ms=START_MS)
    with made.writer() as writer:
        writer.write_side_logs()
    return made


def command(pipeline: SpooledPipeline, *more: str) -> list[str]:
    root = pipeline.root
    given = ["figures", "--pipeline", str(root / "pipeline.yaml"), "--figures", str(root / "figures.yaml")]
    return [*given, *more]


def expected(pipeline: SpooledPipeline, label_0: bool) -> list[bool | None]:
    return [label_0] + [number % 2 == 0 if number % 3 == 0 else None for number in range(1, COUNT)]


def test_the_command_adds_the_labels_that_were_known_by_then(
    pipeline: SpooledPipeline, capfd: pytest.CaptureFixture[str]
) -> None:
    out, plain = (pipeline.root / name for name in ("labelled.parquet", "plain.parquet"))
    lake = command(pipeline, "--from-lake")
    assert run_command([*lake, "--output", str(plain)]) == 0
    for more, label_0, immature in (
        (["--labels-known-by", "+30d"], True, 0),
        (["--labels-known-by", "+45d"], False, 0),
        (["--labels-known-by", "now"], False, 0),
        (["--labels-known-by", "+45d", "--labels-as-of", "2026-02-15T00:10:00Z"], False, COUNT - 11),
    ):
        capfd.readouterr()
        assert run_command([*lake, "--labels", *more, "--output", str(out), "--json"]) == 0
        summary = json.loads(capfd.readouterr().out)["labels"]
        found = pq.read_table(out)
        assert found.select(pq.read_schema(plain).names).equals(pq.read_table(plain))
        if len(more) == 2:
            assert found.column("label").to_pylist() == expected(pipeline, label_0)
        else:  # the labels were given on day 50
            assert found.column("label").null_count == COUNT
        assert (summary["immature"], summary["known_by"]) == (immature, more[1])
        assert found.column("label_mature").to_pylist() == [True] * (COUNT - immature) + [False] * immature
    assert run_command([*lake, "--labels", "--output", str(out)]) == 0
    assert pq.read_table(out).column("label").null_count == COUNT
    assert "no record has a label by then; --labels-known-by +30d takes" in capfd.readouterr().out


@pytest.mark.parametrize("seed", [1, 2])
def test_no_row_changes_by_what_comes_later(tmp_path: Path, seed: int) -> None:
    """No leak into figures: later records, some of them of earlier event times, change nothing in the rows before."""
    draw = random.Random(seed)
    made = SpooledPipeline(tmp_path)
    made.text += "defaults: {watermark_delay: 1h, allowed_lateness: 1h}\n"
    for name, text in (("pipeline.yaml", made.text), ("figures.yaml", FIGURES), ("labels.csv", LABELS)):
        (tmp_path / name).write_text(text)
    (tmp_path / "rules").mkdir()
    records = [payment(number, START_MS + draw.randrange(40) * STEP_MS) for number in range(40)]
    given = ["--from-lake", "--labels-file", str(tmp_path / "labels.csv"), "--labels-known-by", "+1d"]
    found: list[dict[str, Any]] = []
    for part in (records[:20], records[20:]):
        made.batch(part)
        made.write_all()
        assert run_command(command(made, *given, "--output", str(tmp_path / "set.parquet"))) == 0
        rows = {row["record_id"]: row for row in pq.read_table(tmp_path / "set.parquet").to_pylist()}
        assert all(rows[row["record_id"]] == row for row in found)
        found = list(rows.values())
    assert [row["label"] for row in found if row["record_id"] in {"p00001", "p00002"}] == [True, None]


def test_labels_of_a_file_stand_beside_figures_of_files(pipeline: SpooledPipeline) -> None:
    out, cases = pipeline.root / "files.parquet", pipeline.root / "out" / "serve" / FILE
    given = command(pipeline, "--input", str(pipeline.root / "in"), "--labels-file", str(cases))
    assert run_command([*given, "--labels-known-by", "+30d", "--output", str(out)]) == 0
    assert pq.read_table(out).column("label").to_pylist() == expected(pipeline, label_0=True)


@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
def test_every_engine_reads_the_table(pipeline: SpooledPipeline, capfd: pytest.CaptureFixture[str]) -> None:
    lake = command(pipeline, "--from-lake", "--output-table", "training", "--json")
    out = pipeline.root / "engines.parquet"
    assert run_command([*lake, "--labels", "--labels-known-by", "+30d"]) == 0
    assert json.loads(capfd.readouterr().out)["output"] is None
    assert run_command([*lake, "--labels", "--labels-known-by", "+30d", "--output", str(out)]) == 0
    summary = json.loads(capfd.readouterr().out)
    assert (summary["output"], summary["table"]) == (str(out), "training")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{pipeline.root}/out/lake/catalog.db")
    table = catalog.load_table("pay_eu.training")
    catalog.close()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.snapshot_id == summary["snapshot"]
    assert snapshot.summary.additional_properties["crossline.labels-known-by"] == "+30d"
    wanted = expected(pipeline, label_0=True)
    question = f"SELECT label FROM iceberg_scan('{table.metadata_location}') ORDER BY event_time"  # noqa: S608 - our own path
    assert [row[0] for row in duck().execute(question).fetchall()] == wanted
    frame = pl.scan_iceberg(table.metadata_location).sort("event_time").collect()
    assert frame["label"].to_list() == wanted
    assert table.scan().to_arrow().sort_by("event_time").column("label").to_pylist() == wanted
    pandas = table.scan().to_pandas().sort_values("event_time")
    assert [None if each is None else bool(each) for each in pandas["label"]] == wanted
    read = duckdb.sql(f"SELECT count(*) FROM '{out}'").fetchall()  # noqa: S608 - as above
    assert read == [(COUNT,)]


def table(pipeline: SpooledPipeline, name: str = "sets", snapshots_max: int = 100) -> TrainingTable:
    reader = pipeline.reader()
    return TrainingTable(reader.lake, name, frozenset(each.name for each in reader.layouts()), snapshots_max)


def some(folder: Path, **columns: Any) -> Path:
    """A file of three rows."""
    times = pa.array([1, 2, 3]).cast(pa.timestamp("ms", "UTC"))
    path = folder / "some.parquet"
    pq.write_table(pa.table({"record_id": ["a", "b", "c"], "event_time": times, **columns}), path)
    return path


def rows(pipeline: SpooledPipeline, name: str = "sets", snapshot: int | None = None) -> list[dict[str, Any]]:
    found: Table = pipeline.reader().lake.catalog.load_table(("pay_eu", name))
    return list(found.scan(snapshot_id=snapshot).to_arrow().sort_by("record_id").drop("event_time").to_pylist())


def test_a_set_replaces_the_one_before_which_is_still_there_by_its_snapshot(
    pipeline: SpooledPipeline, tmp_path: Path
) -> None:
    mine = table(pipeline)
    first = mine.replace(some(tmp_path, x=[1, 2, 3], y=["p", "q", "r"]), {})
    second = mine.replace(some(tmp_path, x=[1.5, 2.5, None], z=[True, None, False]), {})
    assert [list(each.values()) for each in rows(pipeline)] == [["a", 1.5, True], ["b", 2.5, None], ["c", None, False]]
    before = [["a", 1, "p"], ["b", 2, "q"], ["c", 3, "r"]]
    assert [list(each.values()) for each in rows(pipeline, snapshot=first)] == before
    assert first != second
    third = mine.replace(some(tmp_path, x=[7, 8, 9], y=["s", "t", "u"]), {})
    assert [each["x"] for each in rows(pipeline)] == [7, 8, 9]
    assert [each["y"] for each in rows(pipeline, snapshot=third)] == ["s", "t", "u"]


def test_a_set_without_rows_replaces_one_with_rows(pipeline: SpooledPipeline, tmp_path: Path) -> None:
    mine = table(pipeline, "empty")
    mine.replace(some(tmp_path, x=[1, 2, 3]), {})
    path = some(tmp_path, x=[1, 2, 3])
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    mine.replace(path, {})
    assert rows(pipeline, "empty") == []


def test_the_last_of_two_processes_counts(
    pipeline: SpooledPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits between the files of this one and its commit."""
    original, calls = training_table._commit, []
    monkeypatch.setattr(training_table, "_PAUSE_S", 0.0)

    def commit(own: Table, *given: Any) -> int:
        calls.append(own)
        if len(calls) == 1:
            (tmp_path / "other").mkdir()
            table(pipeline, "two").replace(some(tmp_path / "other", x=[4, 5, 6]), {})
        return original(own, *given)

    monkeypatch.setattr(training_table, "_commit", commit)
    table(pipeline, "two").replace(some(tmp_path, x=[1, 2, 3]), {})
    assert len(calls) == 3  # this one, the other one, this one again
    assert [each["x"] for each in rows(pipeline, "two")] == [1, 2, 3]


def test_a_kill_before_the_commit_leaves_the_set_before(
    pipeline: SpooledPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = table(pipeline, "killed")
    mine.replace(some(tmp_path, x=[1, 2, 3]), {})

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training_table, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            mine.replace(some(tmp_path, x=[4, 5, 6]), {})
    assert [each["x"] for each in rows(pipeline, "killed")] == [1, 2, 3]


def test_others_without_an_end_are_reported(
    pipeline: SpooledPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = training_table._commit

    def busy(*given: Any) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(Transaction, "commit_transaction", refused)
            return original(*given)

    def refused(_: Any) -> None:
        raise CommitFailedException("busy")

    monkeypatch.setattr(training_table, "_commit", busy)
    monkeypatch.setattr(training_table, "TRIES_MAX", 3)
    monkeypatch.setattr(training_table, "_PAUSE_S", 0.0)
    with pytest.raises(training_table.LakeUnavailableError, match="table busy of the lake: 3 commits met"):
        table(pipeline, "busy").replace(some(tmp_path, x=[1, 2, 3]), {})
    assert list((pipeline.root / "out" / "lake" / "pay_eu" / "busy" / "data").glob("*")) == []


def test_old_sets_expire_with_their_files(
    pipeline: SpooledPipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = table(pipeline, "old", snapshots_max=1)
    monkeypatch.setattr(training_table.time, "time_ns", lambda: 4_000_000_000_000_000_000)
    mine.replace(some(tmp_path, x=[1, 2, 3]), {})
    mine.replace(some(tmp_path, x=[4, 5, 6]), {})
    assert len(list((pipeline.root / "out" / "lake" / "pay_eu" / "old" / "data").glob("*"))) == 1
    assert [each["x"] for each in rows(pipeline, "old")] == [4, 5, 6]


@pytest.mark.parametrize("name", ["alerts", "records_payments", "records_x", "Sets", "a.b", "", "1a", "watermarks"])
def test_a_name_that_is_no_free_one_is_refused(pipeline: SpooledPipeline, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--output-table: found"):
        table(pipeline, name).replace(some(tmp_path), {})


def test_a_table_of_somebody_else_is_left_alone(pipeline: SpooledPipeline, tmp_path: Path) -> None:
    lake = pipeline.reader().lake
    lake.catalog.create_table(("pay_eu", "theirs"), pa.schema([("x", pa.int64())]))
    with pytest.raises(UsageError, match="found table theirs, which is no training set; expected another name"):
        table(pipeline, "theirs").replace(some(tmp_path), {})


def test_the_lake_does_not_count_it_among_its_tables(pipeline: SpooledPipeline) -> None:
    names = [each.layout.name for each in pipeline.reader().tables()]
    assert not {"training", "sets"} & set(names)
    assert all(isinstance(each, LakeTable) for each in pipeline.reader().tables())


@pytest.mark.parametrize(
    ("more", "error"),
    [
        (["--from-lake", "--labels", "--labels-file", "x"], "--labels: found --labels-file; expected one of the two"),
        (["--from-lake", "--labels-known-by", "+1d"], "--labels-known-by: found no labels"),
        (["--from-lake", "--labels-as-of", "2026-01-01T00:00:00Z"], "--labels-as-of: found no labels"),
        (["--from-lake", "--labels", "--labels-as-of", "soon"], "--labels-as-of: 'soon' is not"),
        (["--from-lake", "--labels", "--labels-known-by", "30d"], "--labels-known-by: found 30d; expected a time"),
        (["--from-lake", "--output-table", "alerts"], "--output-table: found alerts, a table of the lake"),
        (["--input", "in", "--labels"], "--labels: found no --from-lake"),
        (["--follow", "--labels-file", "x"], "--labels: found --follow"),
        (["--from-lake", "--labels-file", "none.csv"], "--labels-file: found no file none.csv"),
    ],
)
def test_what_does_not_go_together_is_refused(
    pipeline: SpooledPipeline, capfd: pytest.CaptureFixture[str], more: list[str], error: str
) -> None:
    assert run_command([*command(pipeline, *more), "--output", str(pipeline.root / "no.parquet")]) == 2
    assert error in " ".join(capfd.readouterr().err.split())
    assert not (pipeline.root / "no.parquet").exists()
