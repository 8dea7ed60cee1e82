"""Labels, cases, receipts and decisions on all records come to the lake once."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crossline.lake.training.label_versions import LakeLabels, last_labels
from crossline.lake.writing.side_logs import DecisionFile, made_ms_of, side_logs, write_log
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.ledger.schema import LEDGER_FILE, ensure_schema
from unit.lake.lake_kit import START_MS, SpooledPipeline, payment
from unit.lake.test_time_travel import decision

SERVED = """\
policy: policy.yaml
decisions: {emit: all, path: out/decisions}
serve: {path: out/serve, open: true}
"""
POLICY = """\
schema_version: 1
version: 1
decide:
  - {when: "score >= 80", decision: block}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> SpooledPipeline:
    made = SpooledPipeline(tmp_path)
    (tmp_path / "policy.yaml").write_text(POLICY)
    made.text += SERVED
    return made


def write(pipeline: SpooledPipeline) -> dict[str, int]:
    with pipeline.writer() as writer:
        while writer.write_next() is not None:
            pass
        return writer.write_side_logs()


def test_decisions_on_all_records_come_from_their_files(pipeline: SpooledPipeline) -> None:
    folder = pipeline.root / "out" / "decisions"
    folder.mkdir(parents=True)
    lines = [json.dumps(decision(f"d{number}", "allow")) + "\n" for number in range(5)]
    (folder / "decisions-0000.jsonl").write_text("".join(lines[:2]) + lines[2][:20])
    (folder / "decisions-0001.jsonl").write_text(lines[4])
    pipeline.batch([payment(1)], decisions=[decision("d0", "allow")])  # the batch has it too
    assert write(pipeline) == {"decisions-0000.jsonl": 2, "decisions-0001.jsonl": 1}
    with (folder / "decisions-0000.jsonl").open("a") as file:
        file.write(lines[2][20:] + lines[3])
    assert write(pipeline) == {"decisions-0000.jsonl": 2}
    assert write(pipeline) == {}
    found = pipeline.reader().rows("decisions")
    assert sorted(found.column("decision_id").to_pylist()) == ["d0", "d1", "d2", "d3", "d4"]
    assert json.loads(found.column("body")[0].as_py())["decision"] == "allow"


def test_two_writers_append_a_log_once(pipeline: SpooledPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one appends between the position and the commit of this one."""
    folder = pipeline.root / "out" / "decisions"
    folder.mkdir(parents=True)
    path = folder / "decisions-0000.jsonl"
    path.write_text(json.dumps(decision("d0", "allow")) + "\n")
    lake = pipeline.reader().lake
    original, calls = DecisionFile.read, []

    def read(log: DecisionFile, after: int) -> object:
        calls.append(after)
        found = original(log, after)
        if len(calls) == 1:
            assert write_log(pipeline.reader().lake, log) == 1
        return found

    monkeypatch.setattr(DecisionFile, "read", read)
    assert write_log(lake, DecisionFile(path)) == 0
    assert pipeline.reader().rows("decisions").column("decision_id").to_pylist() == ["d0"]


def test_labels_and_cases_come_with_each_change(pipeline: SpooledPipeline) -> None:
    with closing(Cases(pipeline.root / "out" / "serve" / FILE)) as cases:
        cases.put_label("payments", "p00001", True, who="ada", reason="chargeback", known_ms=START_MS)
        cases.put_label("payments", "p00001", False, who="bob", reason="a mistake", known_ms=START_MS + 5)
        assert write(pipeline) == {"labels": 2}
        cases.put_label("payments", "p00002", True, who="ada", known_ms=START_MS)
        made = cases.create_case("cards", who="ada", about={"account_id": "a1"})
        assert set(write(pipeline)) == {"labels", "cases"}
        cases.note(made.case_id, "looked at", "bob")
        assert write(pipeline) == {"cases": 1}
        assert write(pipeline) == {}
    reader = pipeline.reader()
    rows = reader.rows("labels").sort_by([("record_id", "ascending"), ("version", "ascending")]).to_pylist()
    assert [(row["record_id"], row["version"], row["is_fraud"], row["who"]) for row in rows] == [
        ("p00001", 1, True, "ada"),
        ("p00001", 2, False, "bob"),
        ("p00002", 1, True, "ada"),
    ]
    assert rows[0]["known_at"] == datetime.fromtimestamp(START_MS / 1_000, UTC)
    events = reader.rows("cases").to_pylist()
    assert {each["case_id"] for each in events} == {made.case_id}
    assert "looked at" in {each["text"] for each in events}


def test_a_file_that_is_made_anew_brings_its_labels_and_has_the_last_word(
    pipeline: SpooledPipeline, tmp_path: Path
) -> None:
    path = pipeline.root / "out" / "serve" / FILE
    with closing(Cases(path)) as cases:
        for fraud in (True, False, True):
            cases.put_label("payments", "p00001", fraud, who="ada", known_ms=START_MS)
        cases.create_case("cards", who="ada", about={"account_id": "a1"})
    assert write(pipeline) == {"labels": 3, "cases": 1}
    set_aside(path)
    assert write(pipeline) == {}  # no file, no rows
    time_of_the_file(path)
    with closing(Cases(path)) as cases:
        cases.put_label("payments", "p00001", False, who="bob", known_ms=START_MS)
        cases.create_case("cards", who="bob", about={"account_id": "a2"})
        assert write(pipeline) == {"labels": 1, "cases": 1}
        assert write(pipeline) == {}
    reader = pipeline.reader()
    assert reader.rows("labels").num_rows == 4
    assert len(set(reader.rows("cases").column("_checkpoint").to_pylist())) == 2
    for bucket_rows in (1, 1_000):
        (found,) = (each for each in last_labels(reader, START_MS * 2, tmp_path, bucket_rows) if len(each))
        assert found.select(["record_id", "is_fraud", "who"]).to_pylist() == [
            {"record_id": "p00001", "is_fraud": False, "who": "bob"}
        ]
    versions = [row for each in LakeLabels(reader, "payments", START_MS * 2).versions() for row in each.to_pylist()]
    newest = max(versions, key=lambda row: row["version"])
    assert len({row["version"] for row in versions}) == 4
    assert newest["is_fraud"] is False


def test_a_file_without_an_identity_goes_on_where_the_lake_has_it(pipeline: SpooledPipeline) -> None:
    """One from before files had one, before and after it is migrated; then one that is made anew beside it."""
    path = pipeline.root / "out" / "serve" / FILE
    with closing(Cases(path)) as cases:
        cases.put_label("payments", "p00001", True, who="ada", known_ms=START_MS)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TABLE identity")
        connection.execute("PRAGMA user_version = 5")
    assert write(pipeline) == {"labels": 1}
    with closing(Cases(path)) as cases:  # which migrates it
        assert write(pipeline) == {}
        cases.put_label("payments", "p00002", True, who="ada", known_ms=START_MS)
        assert write(pipeline) == {"labels": 1}
    reader = pipeline.reader()
    assert reader.rows("labels").column("_checkpoint").to_pylist() == ["labels", "labels"]
    set_aside(path)
    with closing(Cases(path)) as cases:
        cases.put_label("payments", "p00001", False, who="bob", known_ms=START_MS)
        assert write(pipeline) == {"labels": 1}


def test_a_file_that_is_replaced_meanwhile_is_not_read_under_the_name_of_the_other(pipeline: SpooledPipeline) -> None:
    path = pipeline.root / "out" / "serve" / FILE
    Cases(path).close()
    log = next(each for each in side_logs(pipeline.config) if each.name == "labels")
    set_aside(path)
    with closing(Cases(path)) as cases:
        cases.put_label("payments", "p00001", True, who="ada", known_ms=START_MS)
        assert log.read(-1) == ([], -1)


@pytest.mark.parametrize(
    ("key", "made_ms"), [("labels@1767225600000-ab", 1_767_225_600_000), ("labels", 0), ("labels@x-ab", 0), ("", 0)]
)
def test_a_key_says_when_its_file_was_made(key: str, made_ms: int) -> None:
    assert made_ms_of(key) == made_ms


def set_aside(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.rename(path.parent / f"old-{each.name}")


def time_of_the_file(path: Path) -> None:
    """Wait until a file would be made in another millisecond than the one that was set aside."""
    made_ms = path.parent.joinpath(f"old-{path.name}").stat().st_mtime_ns // 1_000_000
    while time.time_ns() // 1_000_000 <= made_ms:
        pass


def test_receipts_of_each_chain_come_with_their_answer_and_basis(pipeline: SpooledPipeline) -> None:
    path = pipeline.root / "out" / "serve" / LEDGER_FILE
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ensure_schema(connection, path)
        connection.execute("INSERT INTO bases VALUES ('b1', ?)", (b'{"rules": []}',))
        for slot, replica in enumerate(("one", "it's")):
            chain = (slot, replica, 1, "p", 2, "x", 0, "")
            connection.execute("INSERT INTO chains VALUES (?, ?, ?, ?, ?, ?, ?, ?)", chain)
            for sequence in (1, 2):
                name = f"d-{slot}-{sequence}"
                answer = ("payments", f"p-{slot}-{sequence}", "digest", None, None, START_MS, name, "peek", "allow")
                insert = "INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                connection.execute(insert, (*answer, b'{"decision": "allow"}', START_MS))
                receipt = (replica, sequence, name, f"digest-{name}", "b1", b'{"sequence": 1}', START_MS + sequence)
                connection.execute("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?)", receipt)
    assert write(pipeline) == {"receipts-one": 2, "receipts-it's": 2}
    assert write(pipeline) == {}
    rows = pipeline.reader().rows("receipts").sort_by([("replica", "ascending"), ("sequence", "ascending")])
    assert rows.column("decision_id").to_pylist() == ["d-1-1", "d-1-2", "d-0-1", "d-0-2"]
    (first, *_) = rows.to_pylist()
    assert (first["record_id"], first["answer"], first["basis"]) == ("p-1-1", '{"decision": "allow"}', '{"rules": []}')
