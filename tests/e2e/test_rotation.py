"""Files that are rotated, cut short and half written while a pipeline runs, dies and starts again."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.basics.errors import SourceError
from crossline.runtime.sources.chunk_source import pending_text
from docs.session import Session

from .feeding import taken
from .killing import RULES, SEED, kill_driver, running, until
from .project import WAIT_S, Project, crossline
from .traffic import BASE_MS, STREAMS, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
LOGS = {"payments": {"kind": "files", "path": "in/*.log"}}
YEAR_2199_MS = 7_226_582_400_000


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


@pytest.mark.timeout(400)
def test_rotated_files_give_what_one_file_gives(spark: SparkSession, tmp_path: Path) -> None:
    given = records(450, SEED)
    whole = Project(tmp_path / "whole", RULES)
    whole.give("all.jsonl", lines(given))
    whole.drain(spark)
    project = Project(tmp_path / "rotated", RULES, sources=LOGS)
    now, old = project.root / "in" / "shop.log", project.root / "in" / "shop.log.1"
    add(now, lines(given[:150]))
    with running(project) as process:
        until(lambda: taken(project) >= 150, project, process)
        half = len(lines(given[200:201])) // 2
        add(now, lines(given[150:200]) + lines(given[200:201])[:half])
        now.rename(old)
        add(old, lines(given[200:201])[half:])
        until(lambda: taken(project) >= 201, project, process)
        add(now, lines(given[201:350]))
        until(lambda: taken(project) >= 350, project, process)
        kill_driver(process)
    add(now, lines(given[350:400]))
    shutil.copy(now, project.root / "in" / "shop.log.2")
    os.truncate(now, 0)
    add(now, lines(given[400:]))
    project.drain(spark)
    assert taken(project) == len(given)
    assert project.alerts() == whole.alerts()
    assert len(whole.alerts()) > 20
    assert project.dead() == whole.dead()
    assert project.late() == whole.late()


def test_half_a_line_is_left_and_reported_and_judged_when_it_is_whole(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = Project(tmp_path, [velocity("pair", threshold=2, emit="every")])
    one, two, three = (lines([record]) for record in records(3, SEED))
    path = project.root / "in" / "a.jsonl"
    add(path, one + two[:20])
    totals = project.drain(spark)
    assert (totals.records, totals.dead) == (1, {})
    assert totals.left == [f"{path}: bytes {len(one)}-{len(one) + 20} are no whole line yet"]
    capsys.readouterr()
    Session(tmp_path, lambda: spark, monkeypatch).command("crossline run pipeline.yaml --drain --json")
    body = json.loads(capsys.readouterr().out)
    assert (body["left"], body["records"]) == (totals.left, 0)
    add(path, two[20:] + three.removesuffix(b"\n"))
    totals = project.drain(spark)
    assert (totals.records, totals.dead, totals.left) == (2, {}, [])
    add(path, b"\n")
    assert project.drain(spark).records == 0


def test_a_line_that_was_seen_and_is_gone_ends_the_run_once(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(tmp_path, [velocity("pair", threshold=2)])
    one, two, three = (lines([record]) for record in records(3, SEED))
    path = project.root / "in" / "a.jsonl"
    add(path, one + two[:20])
    with project.start(spark) as live:
        live.until_read(1)
        deadline_s = time.monotonic() + WAIT_S
        while not pending_text(str(project.root / "out" / "checkpoint" / "sources" / "payments")):
            assert time.monotonic() < deadline_s
            time.sleep(0.02)
        path.unlink()
        with pytest.raises(
            SourceError, match=r"a\.jsonl: bytes \d+-\d+, no whole line when they were last seen, are gone"
        ):
            live.pipeline.wait()
    add(path, three)
    assert project.drain(spark).records == 1


def future(name: str, event_ms: int, **more: Any) -> dict[str, Any]:
    return {"id": name, "account": "a1", "amount": 1, "kind": "web", "event_time": event_ms, **more}


@pytest.mark.parametrize("clock", ["event_time", "came"])
def test_a_record_from_the_year_2199_harms_no_other(spark: SparkSession, tmp_path: Path, clock: str) -> None:
    stream = STREAMS["payments"]
    changes = {"ingest_time": {"field": "came"}, "fields": {**stream["fields"], "came": "integer"}}
    streams = {"payments": stream if clock == "event_time" else {**stream, **changes}}
    project = Project(tmp_path, [velocity("three", emit="every")], streams=streams)
    given = [future(f"t{n}", BASE_MS + n * 1_000, came=BASE_MS + n * 1_000) for n in range(6)]
    odd = {**future("odd", BASE_MS, came=BASE_MS), clock: YEAR_2199_MS}
    project.give("1.jsonl", lines([*given[:2], odd]))
    project.drain(spark)
    project.give("2.jsonl", lines(given[2:]))
    project.drain(spark)
    assert project.dead() == [("time_in_future", "odd")]
    assert project.late() == []
    assert [alert["record_id"] for alert in project.alerts().values()] == ["t2", "t3", "t4", "t5"]
    output = tmp_path / "backtest.jsonl"
    arguments = ["--rules", project.root / "rules", "--stream", project.root / "stream.yaml", "--output", output]
    crossline("backtest", *arguments, "--input", project.root / "in")
    assert {json.loads(line)["alert_id"] for line in output.read_text().splitlines()} == set(project.alerts())
