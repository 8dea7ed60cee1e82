"""``crossline.detect``: any DataFrame in, static or streaming, the alerts that the naive twin finds out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import crossline as cl
from crossline.basics.errors import UsageError
from e2e.project import Alerts, by_id, figures, from_twin
from e2e.traffic import CASH, RULES, STREAM, STREAMS, Record, expected, lines, records, velocity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from crossline import Stream
    from crossline.rules.ruleset import RuleSet

pytestmark = pytest.mark.spark
DEFAULTS = cl.Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
SCHEMA = "id string, account string, device long, amount long, price double, kind string, event_time long"
COLUMNS = [each.split()[0] for each in SCHEMA.split(", ")]
FILES = 6


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(150, seed=5)


@pytest.fixture(scope="module")
def twin(log: list[Record]) -> dict[str, tuple[Any, ...]]:
    return from_twin(expected(RULES, log))


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Stream:
    path = tmp_path_factory.mktemp("files") / "stream.yaml"
    path.write_text(yaml.safe_dump({"schema_version": 1, "streams": STREAMS}))
    return cl.load_streams(path)[STREAM]


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory, stream: Stream) -> RuleSet:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "a.yaml").write_text(yaml.safe_dump(RULES[:5]))
    (folder / "b.json").write_text(json.dumps(RULES[5:]))
    return cl.load_rules(folder, {STREAM: stream})


def table(spark: SparkSession, log: list[Record], partitions: int = 1) -> DataFrame:
    rows = [tuple(record.get(name) for name in COLUMNS) for record in log]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, partitions), SCHEMA)


def alerts_in(frame: DataFrame) -> Alerts:
    return by_id(json.loads(row.alert) for row in frame.select("alert").collect())


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_static_frame_gives_what_the_twin_finds(
    spark: SparkSession, log: list[Record], twin: Any, stream: Stream, rules: RuleSet, partitions: int
) -> None:
    found = cl.detect(table(spark, log, partitions), rules, stream, shards=partitions, defaults=DEFAULTS)
    assert figures(alerts_in(found)) == twin


def test_the_session_keeps_its_settings(
    spark: SparkSession, log: list[Record], twin: Any, stream: Stream, rules: RuleSet
) -> None:
    """Whatever they are: with adaptive execution, too, shards stay with their tasks."""
    named = {"spark.sql.adaptive.enabled": "true", "spark.sql.execution.arrow.maxRecordsPerBatch": "77"}
    before = {name: spark.conf.get(name) for name in named}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        found = cl.detect(table(spark, log, 3), rules, stream, shards=3, defaults=DEFAULTS)
        assert figures(alerts_in(found)) == twin
        assert {name: spark.conf.get(name) for name in named} == named
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))


FIGURES = """
source_topic: payments
figures:
  tries: {count: true, group_by: account, window: 30s}
  spent: {sum: amount, group_by: device, window: 1m}
"""


def comparable(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((row["record_id"], row["tries"], row["spent"]) for row in rows)


def test_figures_of_a_frame_are_those_of_a_table(
    spark: SparkSession, log: list[Record], stream: Stream, tmp_path: Path
) -> None:
    """Figures of two keys, which are computed in several shards and joined at the record."""
    (tmp_path / "figures.yaml").write_text(FIGURES)
    wanted = cl.figures(log, tmp_path / "figures.yaml", stream, defaults=DEFAULTS).to_arrow()
    frame = cl.figures(table(spark, log), tmp_path / "figures.yaml", stream, shards=3, defaults=DEFAULTS)
    rows = frame.collect()
    assert frame.columns == wanted.column_names
    assert comparable(row.asDict() for row in rows) == comparable(wanted.to_pylist())
    assert len(rows) > 100


def test_alerts_are_columns_too(spark: SparkSession, stream: Stream, rules: RuleSet) -> None:
    record = {"id": "t1", "account": "a1", "amount": 300, "kind": "cash", "event_time": 1_767_225_600_123}
    (row,) = (
        cl.detect(table(spark, [record]), rules, stream, defaults=DEFAULTS).where("rule_id = 'large_cash'").collect()
    )
    assert (row.record_id, row.rule_version, row.kind, row.stream) == ("t1", 1, "alert", STREAM)
    assert row.event_time.timestamp() == 1_767_225_600.123
    assert json.loads(row.evidence) == {"count": 1, "record_ids": ["t1"], "figures": {"kind": "cash", "amount": 300}}
    assert row.value is None


def test_nested_fields_and_lists(spark: SparkSession, tmp_path: Path) -> None:
    """Two records in Rome with a card that is on the list: the second crosses the line."""
    (tmp_path / "stream.yaml").write_text(
        """
        schema_version: 1
        streams:
          taps:
            id: id
            event_time: {field: at, unit: iso8601}
            fields: {id: string, card: string, at: timestamp, place: {city: string, lat: number?}}
        """
    )
    (tmp_path / "rule.yaml").write_text(
        """
        {rule_id: city, version: 1, rule_type: velocity, source_topic: taps, group_by: place.city, window: 10s,
         aggregation_type: count, aggregation_threshold: 2,
         conditions: [{field: card, operator: in, value: {list: stolen}}]}
        """
    )
    taps = spark.sql(
        """
        SELECT id, card, timestamp_millis(at) AS at, named_struct('city', city, 'lat', 1.5D) AS place FROM VALUES
        ('1', 'c1', 1000L, 'Rome'), ('2', 'c9', 2000L, 'Rome'), ('3', 'c1', 3000L, 'Oslo'), ('4', 'c2', 4000L, 'Rome')
        AS taps(id, card, at, city)
        """
    ).coalesce(1)
    streams = cl.load_streams(tmp_path / "stream.yaml")
    rules = cl.load_rules(tmp_path / "rule.yaml", streams)
    (alert,) = alerts_in(cl.detect(taps, rules, streams["taps"], lists={"stolen": ["c1", "c2"]})).values()
    assert (alert["key"], alert["evidence"]["record_ids"]) == ({"place.city": "Rome"}, ["1", "4"])


class Streamed:
    """The log as files, given one by one to a query over a folder; what its batches gave."""

    def __init__(self, spark: SparkSession, root: Path, rules: RuleSet, stream: Stream, log: list[Record]) -> None:
        self.spark, self.root, self.rules, self.stream = spark, root, rules, stream
        size = -(-len(log) // FILES)
        self.files = [log[n : n + size] for n in range(0, len(log), size)]
        self.folder = root / "in"
        self.folder.mkdir()
        self.batches: dict[int, list[Alerts]] = {}

    def detected(self) -> DataFrame:
        frame = self.spark.readStream.schema(SCHEMA).json(str(self.folder))
        state = str(self.root / "state")
        return cl.detect(frame, self.rules, self.stream, shards=2, state=state, defaults=DEFAULTS)

    def start(self, each: Callable[[DataFrame, int], None] | None = None) -> StreamingQuery:
        writer = self.detected().writeStream.foreachBatch(each or self.take)
        return writer.option("checkpointLocation", str(self.root / "checkpoint")).start()

    def take(self, frame: DataFrame, batch: int) -> None:
        self.batches.setdefault(batch, []).append(alerts_in(frame))

    def give(self, query: StreamingQuery, numbers: Iterator[int] | range) -> None:
        for number in numbers:
            partial = self.root / f"{number}.json"
            partial.write_bytes(lines(self.files[number]))
            partial.rename(self.folder / partial.name)
            query.processAllAvailable()

    def figures(self) -> dict[str, tuple[Any, ...]]:
        """Of all batches; each alert in one batch only, and the same at every attempt of it."""
        for attempts in self.batches.values():
            assert all(attempt == attempts[0] for attempt in attempts)
        return figures(by_id(a for attempts in self.batches.values() for a in attempts[0].values()))


def test_figures_of_a_stream_are_those_of_a_table(
    spark: SparkSession, streamed: Streamed, stream: Stream, log: list[Record]
) -> None:
    (streamed.root / "figures.yaml").write_text(FIGURES)
    wanted = cl.figures(log, streamed.root / "figures.yaml", stream, defaults=DEFAULTS).to_arrow()
    frame = spark.readStream.schema(SCHEMA).json(str(streamed.folder))
    state = str(streamed.root / "figure-state")
    made = cl.figures(frame, streamed.root / "figures.yaml", stream, shards=2, state=state, defaults=DEFAULTS)
    query = made.writeStream.format("memory").queryName("features").outputMode("append").start()
    streamed.give(query, range(FILES))
    query.stop()
    assert comparable(row.asDict() for row in spark.table("features").collect()) == comparable(wanted.to_pylist())


@pytest.fixture
def streamed(spark: SparkSession, tmp_path: Path, rules: RuleSet, stream: Stream, log: list[Record]) -> Streamed:
    return Streamed(spark, tmp_path, rules, stream, log)


def test_a_stream_restarted_from_its_checkpoint_gives_what_the_twin_finds(streamed: Streamed, twin: Any) -> None:
    for half in (range(FILES // 2), range(FILES // 2, FILES)):
        query = streamed.start()
        streamed.give(query, half)
        query.stop()
    assert streamed.figures() == twin


def test_a_batch_that_failed_downstream_is_judged_again_to_the_same_alerts(streamed: Streamed, twin: Any) -> None:
    def fails_once(frame: DataFrame, batch: int) -> None:
        streamed.take(frame, batch)
        streamed.take(frame, batch)  # a frame may be computed more than once
        if batch == 2 and len(streamed.batches[batch]) == 2:
            raise OSError("downstream is away")

    query = streamed.start(fails_once)
    with pytest.raises(Exception, match="downstream is away"):
        streamed.give(query, range(3))
    query = streamed.start(fails_once)
    query.processAllAvailable()
    streamed.give(query, range(3, FILES))
    query.stop()
    assert len(streamed.batches[2]) == 4
    assert streamed.figures() == twin


def test_alerts_go_to_any_sink(spark: SparkSession, streamed: Streamed, twin: Any) -> None:
    query = streamed.detected().writeStream.format("memory").queryName("found").outputMode("append").start()
    streamed.give(query, range(FILES))
    query.stop()
    assert figures(alerts_in(spark.table("found"))) == twin


def test_a_frame_that_does_not_fit_the_stream_is_refused_at_once(
    spark: SparkSession, stream: Stream, rules: RuleSet
) -> None:
    frame = table(spark, []).selectExpr("id", "account", "cast(amount AS string) AS amount", "kind", "price")
    with pytest.raises(UsageError) as raised:
        cl.detect(frame, rules, stream)
    assert str(raised.value) == (
        "the frame does not fit stream payments: "
        "field amount: found string, expected integer; field event_time: found no such column, expected integer"
    )


def test_rules_of_other_streams_are_refused_at_once(spark: SparkSession, stream: Stream, tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(yaml.safe_dump([velocity("clicks", conditions=CASH, source_topic="clicks")]))
    with pytest.raises(UsageError, match="no rule reads stream payments; the rules read clicks"):
        cl.detect(table(spark, []), cl.load_rules(tmp_path / "r.yaml"), stream)
    rates = {"count": True, "source_topic": "rates", "group_by": "account", "window": "5m"}
    both = {"rule_id": "both", "version": 1, "rule_type": "formula", "source_topic": "payments", "when": "n > 1"}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump([{**both, "figures": {"n": rates}}]))
    with pytest.raises(UsageError, match="rule both reads rates besides payments"):
        cl.detect(table(spark, []), cl.load_rules(tmp_path / "r.yaml"), stream)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="found no rule files"):
        cl.load_rules(tmp_path / "empty")
