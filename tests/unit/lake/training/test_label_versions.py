"""Labels of the lake: the last word on each, and what a training set takes, are those of the API."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crossline.basics.errors import StateError
from crossline.cli.main import run_command
from crossline.lake.tables.row_filters import equal
from crossline.lake.training.label_files import FileLabels
from crossline.lake.training.label_versions import LakeLabels, last_labels
from crossline.serve.cases import labels
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.values import Label
from unit.lake.lake_kit import START_MS, SpooledPipeline
from unit.lake.training.served import serve

STEPS = 60


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> SpooledPipeline:
    """A random log of labels, step by step: new ones, revisions, back-dated ones, withdrawn ones; in two commits."""
    made = SpooledPipeline(tmp_path_factory.mktemp("labels"))
    serve(made)
    (made.root / "pipeline.yaml").write_text(made.text)
    draw, clock = random.Random(5), count(START_MS)
    with closing(Cases(made.root / "out" / "serve" / FILE, clock_ms=lambda: next(clock))) as cases:
        for step in range(STEPS):
            stream, record_id = draw.choice(["payments", "logins"]), f"p{draw.randrange(9):05d}"
            stands = cases.label(stream, record_id)
            if stands is not None and draw.random() < 0.3:
                before = draw.choice([None, *cases.label_history(stream, record_id)])
                with cases._file.transaction():  # as the undo of an action does it
                    labels.withdraw(cases._file, stands, before, "bob", next(clock))
            else:
                known_ms = draw.choice([None, START_MS - draw.randrange(100)])
                cases.put_label(stream, record_id, draw.random() < 0.5, who="ada", known_ms=known_ms)
            if step == STEPS // 2:
                write(made)
    write(made)
    return made


def write(pipeline: SpooledPipeline) -> None:
    with pipeline.writer() as writer:
        writer.write_side_logs()


@pytest.fixture
def cases(pipeline: SpooledPipeline) -> Iterator[Cases]:
    with closing(Cases(pipeline.root / "out" / "serve" / FILE)) as found:
        yield found


INSTANTS = [START_MS - 1, START_MS + 7, START_MS + 40, START_MS + 10_000]


@pytest.mark.parametrize("bucket_rows", [1 << 20, 5])
def test_the_last_word_is_that_of_the_api(
    pipeline: SpooledPipeline, cases: Cases, tmp_path: Path, bucket_rows: int
) -> None:
    for at_ms in INSTANTS:
        rows = [
            row for part in last_labels(pipeline.reader(), at_ms, tmp_path, bucket_rows) for row in part.to_pylist()
        ]
        found = {(row["stream"], row["record_id"], row["version"], row["is_fraud"], row["who"]) for row in rows}
        api = cases.labels(given_by_ms=at_ms)
        assert found == {(each.stream, each.record_id, each.version, each.is_fraud, each.who) for each in api}
        assert len(found) == len(rows)
    assert found
    assert list(tmp_path.iterdir()) == []


def last(versions: Iterator[pa.RecordBatch], known_by_ms: int) -> dict[str, bool]:
    """By record the last version that was known by then, by looking at all; those withdrawn are left out."""
    rows = sorted((row for batch in versions for row in batch.to_pylist()), key=lambda row: row["version"])
    known = {row["record_id"]: row["is_fraud"] for row in rows if row["known_at"].timestamp() * 1_000 <= known_by_ms}
    return {name: verdict for name, verdict in known.items() if verdict is not None}


def test_the_versions_are_those_of_the_api_however_they_are_read(pipeline: SpooledPipeline, cases: Cases) -> None:
    place = str(pipeline.root / "out" / "serve" / FILE)
    reader = pipeline.reader()
    for as_of_ms in INSTANTS:
        lake = LakeLabels(reader, "payments", as_of_ms)
        file = FileLabels(place, "payments", "id", as_of_ms, dated=True)
        for known_by_ms in [START_MS - 50, *INSTANTS]:
            api: list[Label] = list(cases.labels(["payments"], known_by_ms=known_by_ms, given_by_ms=as_of_ms))
            mine = {each.record_id: each.is_fraud for each in api}
            assert last(lake.versions(), known_by_ms) == mine
            assert last(file.versions(), known_by_ms) == mine
    assert len(reader.rows("labels", [equal("stream", "payments")])) == sum(map(len, lake.versions())) < lake.count()


def test_lake_at_lists_the_last_word(
    pipeline: SpooledPipeline, cases: Cases, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["lake", "at", "2100-01-01T00:00:00Z", "labels", "--pipeline", str(pipeline.root / "pipeline.yaml")]
    assert run_command(given) == 0
    out = capfd.readouterr().out
    api = list(cases.labels())
    assert [out.count(each.record_id) > 0 for each in api] == [True] * len(api)
    assert run_command([*given, "--limit", "2", "--json"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [each.record_id in line for each, line in zip(api[-2:], lines, strict=True)] == [True, True]
    assert run_command([*given, "--limit", "2"]) == 0
    assert "the last 2, there are more" in capfd.readouterr().err


def test_a_table_of_before_withdrawals_can_be_read(pipeline: SpooledPipeline) -> None:
    """It lacks the column."""
    reader = pipeline.reader()
    table = reader._there("labels")
    rows = table.scan().to_arrow()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("withdrawn")
    try:
        found = pa.Table.from_batches(LakeLabels(pipeline.reader(), "payments", 2 * START_MS).versions())
        assert len(found) == pc.sum(pc.equal(rows.column("stream"), "payments")).as_py()
        assert found.column("is_fraud").null_count == 0
    finally:
        with table.update_schema() as update:
            update.union_by_name(pa.schema([("withdrawn", pa.bool_())]))


def test_a_lake_without_labels_says_so(tmp_path: Path) -> None:
    reader = SpooledPipeline(tmp_path).reader()
    with pytest.raises(StateError, match="the lake has no table labels"):
        list(LakeLabels(reader, "payments", 0).versions())
