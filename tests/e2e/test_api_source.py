"""A pipeline whose records come through a log of the decision API, while the pipeline stops and starts again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from crossline.connectors.recordlog.filelog import FileRecordLog
from crossline.core.decide.hits import DecidedRecord
from crossline.core.decide.policy import load_policy
from crossline.core.streams.asked import Asked, Place
from crossline.engine.work.totals import IN_PROCESS, RAN
from crossline.serve.feed.exact import Exact, NotDecidedError
from crossline.serve.feed.reader import EventId, FeedReader

from .project import WAIT_S, Project
from .test_decisions import ASKED, POLICY
from .traffic import RULES, STREAM, Record, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
OF_THE_RUN = ("decided_at",)
Answer = Mapping[str, Any] | NotDecidedError


class Api(threading.Thread):
    """Puts records into the log one after the other, and waits for the decision on each; as an API would."""

    def __init__(self, project: Project, policy: str) -> None:
        super().__init__(daemon=True)
        self._log_folder, self._feed = project.root / "in" / "log", project.root / "out" / "checkpoint" / "feed"
        self._policy = load_policy(policy, "policy.yaml")
        self._groups: list[list[Record]] = []
        self._news = threading.Condition()
        self._ingest_ms = 0
        self.answers: dict[str, Answer] = {}
        self.events: list[tuple[EventId, str]] = []
        self.failed: BaseException | None = None

    def give(self, some: Sequence[Record]) -> None:
        with self._news:
            self._groups += [list(some[at : at + 7]) for at in range(0, len(some), 7)] + ([[]] if not some else [])
            self._news.notify_all()

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - for the test's own thread
            self.failed = error

    def _next(self) -> list[Record]:
        with self._news:
            assert self._news.wait_for(lambda: bool(self._groups), WAIT_S)
            return self._groups.pop(0)

    async def _serve(self) -> None:
        log, reader = FileRecordLog(self._log_folder, "id", 20_000), FeedReader(self._feed)
        exact, waiting = Exact(reader, self._policy), list[asyncio.Task[None]]()
        told = asyncio.ensure_future(self._follow(reader))
        while group := await asyncio.to_thread(self._next):
            asked = [Asked(0, STREAM, each["id"], orjson.dumps(each), "", 0) for each in group]
            for each, place in zip(group, await log.append(asked), strict=True):
                waiting.append(asyncio.ensure_future(self._answer(exact, each, place)))
        await asyncio.gather(*waiting)
        await log.close()
        await reader.close()
        await told

    async def _answer(self, exact: Exact, record: Record, place: Place) -> None:
        if record["id"] in self.answers:  # a repeat, which stands where the first one stands
            return
        event_ms = record["event_time"]
        self._ingest_ms = max(self._ingest_ms, event_ms)
        asked = DecidedRecord(STREAM, record["id"], event_ms, self._ingest_ms)
        self.answers[record["id"]] = {}
        try:
            self.answers[record["id"]] = await exact.decision(asked, place)
        except NotDecidedError as error:
            self.answers[record["id"]] = error

    async def _follow(self, reader: FeedReader) -> None:
        async for event in reader.events(EventId(0, -1)):
            self.events.append(
                (event.id, event.value()[f"{event.kind}_id" if event.kind != "correction" else "alert_id"])
            )


def written(project: Project) -> dict[str, dict[str, Any]]:
    """The decisions that the pipeline itself wrote, on every record."""
    folder = project.root / "out" / "decided"
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return {each["record_id"]: each for each in lines if each["kind"] == "decision"}


def plain(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in decision.items() if name not in OF_THE_RUN}


@pytest.mark.timeout(400)
def test_what_the_api_acknowledges_is_judged_once_and_its_answers_are_the_pipeline_s(
    spark: SparkSession, tmp_path: Path
) -> None:
    rules = [
        {**rule, **({"action": asked[0], "score": asked[1]} if (asked := ASKED.get(rule["rule_id"])) else {})}
        for rule in RULES
    ]
    given, policy = records(900, seed=20), yaml.safe_dump(POLICY)
    more: dict[str, Any] = {"policy": "policy.yaml", "decisions": {"emit": "all", "path": "out/decided"}}
    api_log = {STREAM: {"kind": "api", "path": "in/log"}}
    project = Project(tmp_path / "api", rules, sources=api_log, serve={"open": True}, **more)
    (project.root / "policy.yaml").write_text(policy)
    api = Api(project, policy)
    api.start()
    with project.start(spark) as running:
        api.give(given[:300])
        running.until_read(290)
        api.give(given[300:500])  # some of these come while nobody judges
    api.give(given[500:700])
    with project.start(spark) as running:
        running.until_read(300)
        api.give(given[700:])
        api.give([])
        api.join(WAIT_S)
        ways = {each.figures[RAN] for each in running.deliveries}
    if api.failed is not None:
        raise api.failed
    assert not api.is_alive()
    assert IN_PROCESS in ways, "no task of Spark is waited for"

    files = sorted((project.root / "in" / "log").glob("*.jsonl"))
    assert len(files) > 3
    log = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    unique = list({each["id"]: each for each in reversed(given)}.values())[::-1]
    assert sorted(each["id"] for each in log) == sorted(each["id"] for each in unique)
    whole = Project(tmp_path / "whole", rules, **more)
    (whole.root / "policy.yaml").write_text(policy)
    whole.give("all.jsonl", b"".join(file.read_bytes() for file in files))
    whole.drain(spark)
    assert project.alerts() == whole.alerts()
    assert len(whole.alerts()) > 100
    assert project.late() == whole.late() != []
    assert project.dead() == whole.dead() == []

    decided = written(project)
    assert set(decided) == {name for name, each in api.answers.items() if not isinstance(each, NotDecidedError)}
    for name, said in decided.items():
        answer = api.answers[name]
        assert not isinstance(answer, NotDecidedError)
        assert plain(answer) == plain(said)
    late = [each for each in api.answers.values() if isinstance(each, NotDecidedError)]
    assert {each.reason for each in late} == {"late"}
    assert {each.record_id for each in late} >= set(project.late())
    assert {bool(each["reasons"]) for each in decided.values()} == {True, False}
    shown = [alert["alert_id"] for alert in whole.alerts().values() if alert["kind"] != "shadow"]
    events = [name for _, name in api.events]
    assert sorted(id_ for id_, _ in api.events) == [id_ for id_, _ in api.events]
    assert {each for each in shown if each not in events} == {
        alert["alert_id"] for alert in whole.alerts().values() if not alert.get("emit_to_sink", True)
    }
