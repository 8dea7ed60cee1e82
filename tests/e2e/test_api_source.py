"""A pipeline whose records come through a log of the decision API, while the pipeline stops and starts again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.feed.files import batches_in, read_batch
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.recordlog.topic import KafkaRecordLog
from crossline.rules.policy.hits import DecidedRecord
from crossline.rules.policy.policy import load_policy
from crossline.runtime.work.totals import IN_PROCESS, RAN
from crossline.serve.feed.exact import Exact, NotDecidedError
from crossline.serve.feed.reader import EventId, FeedReader
from crossline.settings.kafka import KafkaSourceSettings

from .feeding import taken
from .killing import SEED, kill_driver, running, until
from .project import WAIT_S, Project
from .test_decisions import ASKED, POLICY
from .traffic import RULES, STREAM, Record, lines, records

if TYPE_CHECKING:
    from dev.services.broker import LocalBroker
    from pyspark.sql import SparkSession

    from crossline.serve.decisions.values import RecordLog

pytestmark = pytest.mark.spark
OF_THE_RUN = ("decided_at",)
Answer = Mapping[str, Any] | NotDecidedError


class Api(threading.Thread):
    """Puts records into the log one after the other, and waits for the decision on each; as an API would."""

    def __init__(self, project: Project, policy: str, log: Callable[[], RecordLog]) -> None:
        super().__init__(daemon=True)
        self._log, self._feed = log, project.root / "out" / "checkpoint" / "feed"
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
        log, reader = self._log(), FeedReader(self._feed)
        exact, waiting = Exact(reader, self._policy), list[asyncio.Task[None]]()
        reported = asyncio.ensure_future(self._follow(reader))
        while group := await asyncio.to_thread(self._next):
            asked = [self._asked(each) for each in group]
            for each, place in zip(asked, await log.append(asked), strict=True):
                if each.record_id not in self.answers:  # a repeat stands where the first one stands
                    self.answers[each.record_id] = {}
                    waiting.append(asyncio.ensure_future(self._answer(exact, each, place)))
        await asyncio.gather(*waiting)
        await log.close()
        await reader.close()
        await reported

    def _asked(self, record: Record) -> SubmittedRecord:
        """Of what came before, nothing was later: as files say by themselves, and messages by their time."""
        if record["id"] not in self.answers:
            self._ingest_ms = max(self._ingest_ms, record["event_time"])
        return SubmittedRecord(0, STREAM, record["id"], orjson.dumps(record), "", self._ingest_ms)

    async def _answer(self, exact: Exact, asked: SubmittedRecord, place: LogPosition) -> None:
        event_ms = orjson.loads(asked.raw)["event_time"]
        record = DecidedRecord(STREAM, asked.record_id, event_ms, asked.ingest_ms)
        try:
            self.answers[asked.record_id] = await exact.decision(record, place)
        except NotDecidedError as error:
            self.answers[asked.record_id] = error

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


RULES_ASKED = [
    {**rule, **({"action": asked[0], "score": asked[1]} if (asked := ASKED.get(rule["rule_id"])) else {})}
    for rule in RULES
]
DECIDED: dict[str, Any] = {"policy": "policy.yaml", "decisions": {"emit": "all", "path": "out/decided"}}


def project_at(root: Path, **more: Any) -> Project:
    project = Project(root, RULES_ASKED, **DECIDED, **more)
    (root / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    return project


def asked_of(project: Project, spark: SparkSession, given: Sequence[Record], log: Callable[[], RecordLog]) -> Api:
    """Have the records asked about while the pipeline stops and starts again; the API, at its end."""
    api, half = Api(project, yaml.safe_dump(POLICY), log), len(given) // 2
    api.start()
    with project.start(spark) as run:
        api.give(given[: half // 2])
        run.until_read(half // 2 - 15)
        api.give(given[half // 2 : half])  # some of these come while no pipeline runs
    api.give(given[half : -half // 4])
    with project.start(spark) as run:
        run.until_read(half // 4)
        api.give(given[-half // 4 :])
        api.give([])
        api.join(WAIT_S)
        ways = {each.figures[RAN] for each in run.deliveries}
    if api.failed is not None:
        raise api.failed
    assert not api.is_alive()
    assert IN_PROCESS in ways, "no task of Spark is waited for"
    return api


def check_same(project: Project, whole: Project, api: Api) -> None:
    """The output of the pipeline and the answers of the API equal the output for a file of the same records."""
    assert project.alerts() == whole.alerts()
    assert len(whole.alerts()) > 50
    assert project.late() == whole.late() != []
    assert project.dead() == whole.dead() == []
    decided = written(project)
    assert set(decided) == {name for name, each in api.answers.items() if not isinstance(each, NotDecidedError)}
    for name, found in decided.items():
        answer = api.answers[name]
        assert not isinstance(answer, NotDecidedError)
        assert plain(answer) == plain(found)
    late = [each for each in api.answers.values() if isinstance(each, NotDecidedError)]
    assert {each.reason for each in late} == {"late"}
    assert {each.record_id for each in late} >= set(project.late())
    assert {bool(each["reasons"]) for each in decided.values()} == {True, False}
    shown = {a["alert_id"] for a in whole.alerts().values() if a["kind"] != "shadow" and a.get("emit_to_sink", True)}
    numbers, names = [number for number, _ in api.events], {name for _, name in api.events}
    assert sorted(set(numbers)) == numbers
    assert shown <= names


@pytest.mark.timeout(400)
def test_what_the_api_acknowledges_is_judged_once_and_its_answers_are_the_pipeline_s(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = records(900, seed=20)
    project = project_at(tmp_path / "api", sources={STREAM: {"kind": "api", "path": "in/log"}}, serve={"open": True})
    folder = project.root / "in" / "log"
    api = asked_of(project, spark, given, lambda: FileRecordLog(folder, "id", 20_000))
    files = sorted(folder.glob("*.jsonl"))
    assert len(files) > 3
    log = [json.loads(line)["id"] for file in files for line in file.read_text().splitlines()]
    assert sorted(log) == sorted({each["id"] for each in given})
    whole = project_at(tmp_path / "whole")
    whole.give("all.jsonl", b"".join(file.read_bytes() for file in files))
    whole.drain(spark)
    check_same(project, whole, api)


@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_the_same_through_a_topic(
    spark: SparkSession, tmp_path: Path, kafka_broker: LocalBroker, kafka_topic: Callable[..., str]
) -> None:
    topic, given = kafka_topic(1, append_time=False), records(400, seed=21)
    source = {"kind": "kafka", "brokers": kafka_broker.brokers, "topic": topic, "key": "account"}
    project = project_at(tmp_path / "api", sources={STREAM: source}, serve={"open": True})
    settings = KafkaSourceSettings(**source)
    api = asked_of(project, spark, given, lambda: KafkaRecordLog(settings, topic, "account", {}))
    whole = project_at(tmp_path / "whole")
    once = {each["id"]: each for each in reversed(given)}
    whole.give("all.jsonl", lines([once.pop(each["id"]) for each in given if each["id"] in once]))
    whole.drain(spark)
    check_same(project, whole, api)


@pytest.mark.timeout(400)
def test_a_pipeline_that_is_killed_leaves_no_record_out_of_its_feed(spark: SparkSession, tmp_path: Path) -> None:
    given = list({each["id"]: each for each in records(450, SEED)}.values())
    project = project_at(tmp_path / "api", sources={STREAM: {"kind": "api", "path": "in/log"}}, serve={"open": True})
    folder, feed = project.root / "in" / "log", project.root / "out" / "checkpoint" / "feed"

    async def put(some: Sequence[Record]) -> list[LogPosition]:
        log = FileRecordLog(folder, "id", 10_000)
        found = [await log.append([SubmittedRecord(0, STREAM, each["id"], orjson.dumps(each), "", 0)]) for each in some]
        await log.close()
        return [place for (place,) in found]

    places = asyncio.run(put(given[:150]))
    with running(project) as process:
        until(lambda: taken(project) >= 150, project, process)
        places += asyncio.run(put(given[150:300]))
        until(lambda: taken(project) > 150, project, process)
        kill_driver(process)
    places += asyncio.run(put(given[300:]))
    project.drain(spark)
    whole = project_at(tmp_path / "whole")
    whole.give("all.jsonl", b"".join(file.read_bytes() for file in sorted(folder.glob("*.jsonl"))))
    whole.drain(spark)
    assert project.alerts() == whole.alerts()
    numbers = batches_in(feed)
    assert numbers == list(range(len(numbers)))
    batches = [read_batch(feed, number) for number in numbers]
    for place in places:
        (mine,) = [batch.number for batch in batches if batch.has(STREAM, place)]
        assert [batch.number for batch in batches if batch.covers(STREAM, place)] == numbers[mine:]
    assert sum(batch.head["counts"]["records"] for batch in batches) == len(given)
