"""A messy log: what cannot be taken in is kept with its reason, its bytes and its place, and the rest goes on."""

from __future__ import annotations

import base64
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crossline.io.sqlite.reader import StoreReader

from .project import Project, crossline
from .traffic import STREAM, STREAMS, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BASE_MS = 1_767_225_600_000
PAIR = velocity("pair", threshold=2, emit="every", window="60s")
LONG = b'{"id": "long", "kind": "' + b"x" * 1_100_000 + b'"}'


def record(name: str, after_s: float = 0, **changes: Any) -> bytes:
    event_ms = round(BASE_MS + after_s * 1_000)
    whole = {"id": name, "account": "a1", "amount": 1, "kind": "web", "event_time": event_ms, **changes}
    return json.dumps({name: value for name, value in whole.items() if value != "left out"}).encode()


# Each line with what becomes of it: None where it is good, else the reason, and the id where one can be read.
GIVEN: list[tuple[bytes, tuple[str, str | None] | None]] = [
    (record("good1"), None),
    (b'{"id": "torn", "account"', ("malformed_json", None)),
    (b"", None),
    (b'["not", "an object"]', ("not_an_object", None)),
    (record("headless", account="left out"), ("missing_field", "headless")),
    (record("typed", amount="12"), ("wrong_type", "typed")),
    (record("huge", 1, amount=1).replace(b'"amount": 1', b'"amount": 99999999999999999999'), ("bad_number", "huge")),
    (record("encoded", 1).replace(b"web", b"w\xffb"), ("bad_encoding", None)),
    (record("ancient", event_time=-5), ("time_out_of_range", "ancient")),
    (record("good2", 10), None),
    (record("good1", 11), ("duplicate_id", "good1")),
    (LONG, ("line_too_long", None)),
    (record("late", 40), None),
    (record("very late", 5), None),
    (record("good3", 41), None),
]
# A file from Windows; the last line has no end.
MESSY = [*((line + b"\r", fate) for line, fate in GIVEN[:-1]), GIVEN[-1]]
DEAD = [(line, *fate) for line, fate in MESSY if fate is not None]


def offsets(items: list[bytes]) -> dict[bytes, int]:
    """Where each line starts."""
    return dict(zip(items, itertools.accumulate((len(line) + 1 for line in items), initial=0), strict=False))


@pytest.fixture(scope="module")
def project(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The messy file, run to its end twice."""
    sinks = [
        {"kind": "sqlite", "path": "out/alerts.db"},
        {"kind": "jsonl", "path": "out/alerts.jsonl", "dead_letters": "out/dead.jsonl"},
    ]
    project = Project(tmp_path_factory.mktemp("messy"), [PAIR], sinks=sinks)
    project.give("messy.jsonl", b"\n".join(line for line, _ in MESSY))
    totals = project.drain(spark)
    assert totals.dead == {reason: 1 for _, reason, _ in DEAD}
    assert totals.late == 1
    project.drain(spark)
    return project


def test_each_dead_letter_has_its_reason_its_bytes_and_its_place(project: Project) -> None:
    path = str(project.root / "in" / "messy.jsonl")
    places = offsets([line for line, _ in MESSY])
    columns = 'stream, "partition", "offset", reason, record_id, raw'
    rows = project.rows(f'SELECT {columns} FROM dead_letters ORDER BY "offset"')  # noqa: S608 - our own names
    # Of a line that is too long, the first 4 KiB are kept.
    raws = [line[:4096] if reason == "line_too_long" else line for line, reason, _ in DEAD]
    assert rows == [
        (STREAM, path, places[line], reason, name, raw) for (line, reason, name), raw in zip(DEAD, raws, strict=True)
    ]


def test_details_say_what_was_found_and_what_was_expected(project: Project) -> None:
    details = dict(project.rows("SELECT record_id, detail FROM dead_letters WHERE record_id IS NOT NULL"))
    assert "account" in details["headless"]
    assert all(word in details["typed"] for word in ("amount", "12", "integer"))
    assert "'good1' came before" in details["good1"]


def test_good_records_are_judged_and_a_very_late_one_is_a_dead_letter(project: Project) -> None:
    # good2 finds good1; late finds both; good3 all three. What is dead or very late is in no window.
    found = [(a["record_id"], a["evidence"]["record_ids"]) for a in project.alerts().values()]
    assert found == [
        ("good2", ["good1", "good2"]),
        ("late", ["good1", "good2", "late"]),
        ("good3", ["good1", "good2", "late", "good3"]),
    ]
    assert project.rows("SELECT record_id, lateness_ms, raw FROM late_records") == [
        ("very late", 35_000, record("very late", 5) + b"\r")
    ]


def test_they_can_be_asked_for(project: Project) -> None:
    reader = StoreReader(project.store)
    assert reader.dead_counts() == {reason: 1 for _, reason, _ in DEAD}
    assert [letter["raw"] for letter in reader.dead_letters("wrong_type")] == [record("typed", amount="12") + b"\r"]
    reader.close()
    asked = crossline("alerts", "dead", "--db", project.store, "--reason", "wrong_type", "--json")
    (letter,) = map(json.loads, asked.stdout.splitlines())
    assert (letter["reason"], letter["record_id"]) == ("wrong_type", "typed")


def test_the_records_of_an_alert_are_the_good_ones(project: Project) -> None:
    path = str(project.root / "in" / "messy.jsonl")
    places = offsets([line for line, _ in MESSY])
    good = {json.loads(line)["id"]: line for line, fate in MESSY if fate is None and line.strip()}
    for alert_id, alert in project.alerts().items():
        asked = crossline("alerts", "show", alert_id, "--pipeline", project.pipeline, "--json")
        assert json.loads(asked.stdout)["records"] == [
            {
                "record_id": name,
                "found": True,
                "partition": path,
                "offset": places[good[name]],
                "event_time": event_time(good[name]),
                "fields": json.loads(good[name]),
            }
            for name in alert["evidence"]["record_ids"]
        ]


def event_time(line: bytes) -> str:
    stamp = datetime.fromtimestamp(json.loads(line)["event_time"] / 1_000, UTC)
    return stamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_in_a_file_bytes_that_are_no_text_stand_in_base_64(project: Project) -> None:
    letters = [json.loads(line) for line in (project.root / "out" / "dead.jsonl").read_text().splitlines()]
    assert len(letters) == len(DEAD)
    (encoded,) = [letter for letter in letters if letter["reason"] == "bad_encoding"]
    assert base64.b64decode(encoded["raw_base64"]) == record("encoded", 1).replace(b"web", b"w\xffb") + b"\r"
    (typed,) = [letter for letter in letters if letter["reason"] == "wrong_type"]
    assert typed["raw"] == record("typed", amount="12").decode() + "\r"


def test_csv_and_parquet_have_dead_letters_too(spark: SparkSession, tmp_path: Path) -> None:
    streams = {form: {**STREAMS[STREAM], "format": form} for form in ("csv", "parquet")}
    sources = {form: {"kind": "files", "path": f"in/*.{form}"} for form in streams}
    rules = [velocity(form, threshold=2, source_topic=form) for form in streams]
    project = Project(tmp_path, rules, streams=streams, sources=sources)
    rows = ["c1,a1,1,web,1000", "c2,a1,one,web,2000", 'c3,a1,1,"web,3000', "c4,a1,1,web,4000", "c1,a1,1,web,5000"]
    project.give("a.csv", "\n".join(["id,account,amount,kind,event_time", *rows, ""]).encode())
    names = ["p1", "p2", None, "p1"]
    columns = {"id": names, "account": ["a1"] * 4, "amount": [1] * 4, "kind": ["web"] * 4, "event_time": [1, 2, 3, 4]}
    pq.write_table(pa.table(columns), tmp_path / "in" / "a.parquet")
    project.drain(spark)
    found = project.rows('SELECT stream, "offset", reason, record_id, raw FROM dead_letters ORDER BY stream, "offset"')
    head = len("id,account,amount,kind,event_time\n")
    line = len(rows[0]) + 1
    assert [row[:4] for row in found] == [
        ("csv", head + line, "wrong_type", "c2"),
        ("csv", head + line + len(rows[1]) + 1, "malformed_csv", None),
        ("csv", head + line + len(rows[1]) + len(rows[2]) + 2 + line, "duplicate_id", "c1"),
        ("parquet", 2, "missing_field", None),
        ("parquet", 3, "duplicate_id", "p1"),
    ]
    assert [row[4] for row in found[:3]] == [rows[1].encode(), rows[2].encode(), rows[4].encode()]
    assert json.loads(found[3][4]) == {"id": None, "account": "a1", "amount": 1, "kind": "web", "event_time": 3}
    assert sorted((a["stream"], a["record_id"]) for a in project.alerts().values()) == [
        ("csv", "c4"),
        ("parquet", "p2"),
    ]
