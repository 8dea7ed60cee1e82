"""The Python API: rules and streams from files, ``detect`` on any Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from crossline.core.alerts.alert import ALERT_SCHEMA, alert_table
from crossline.core.alerts.alertjson import read_alerts
from crossline.core.basics.errors import UsageError
from crossline.core.basics.times import PARTITION_LAG_MS
from crossline.core.conditions.lists import named_lists
from crossline.core.judge.shard import Bounds
from crossline.core.rules.base import Defaults
from crossline.core.rules.composition import bases_of
from crossline.core.rules.ruleset import RuleSet
from crossline.core.streams.schema import StreamSpec
from crossline.core.streams.schema import load_streams as parse_streams
from crossline.engine.book.book import Book, StaticBook
from crossline.engine.hops.hops import hops_of
from crossline.engine.runtime.settings import RUNTIME_SETTINGS
from crossline.engine.source.frames import check_frame
from crossline.engine.source.intake import TableIntake
from crossline.engine.spark.flow import wide
from crossline.engine.state.cache import ShardCache
from crossline.engine.workers.keepers import KeptJudge
from crossline.rulelog.content import read_text
from crossline.rulelog.reading import Known, read_rules

STATE_FOLDER = "crossline-state"


# Spark takes instants in microseconds only.
_SPARK_ARROW = pa.schema(
    [(f.name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(f.type) else f.type) for f in ALERT_SCHEMA]
)


class Stream:
    """A declared stream: its name, as rules know it, and its shape."""

    def __init__(self, name: str, spec: StreamSpec) -> None:
        self.name = name
        self.spec = spec

    def __repr__(self) -> str:
        return f"Stream({self.name})"


def load_streams(path: str | Path) -> dict[str, Stream]:
    """The streams of a stream.yaml, by name.

    Raises RefusedError with all that is wrong in it, UsageError where it cannot be read.
    """
    return {name: Stream(name, spec) for name, spec in parse_streams(read_text(path), str(path)).items()}


def load_rules(
    path: str | Path, streams: Mapping[str, Stream] | None = None, *, figures: str | Path | None = None
) -> RuleSet:
    """The rules of a file, or of all rule files of a folder; with ``streams``, their fields and types are checked too.

    ``figures``: a folder of the shared figures that they name, where those do not stand beside them.

    Raises:
        RefusedError: all that is wrong in the files, with file:line.
        UsageError: no rules there, or a file that cannot be read.
    """
    specs = {name: stream.spec for name, stream in streams.items()} if streams is not None else None
    folder = None if figures is None else Path(figures)
    return RuleSet.from_rules(read_rules(Path(path), Known(specs, figures=folder)))


def detect(
    frame: DataFrame,
    rules: RuleSet,
    stream: Stream,
    *,
    shards: int | None = None,
    state: str | None = None,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
) -> DataFrame:
    """The alerts of ``rules`` over ``frame``, whose columns are the fields of ``stream`` (nested fields as structs).

    A static frame gives all its alerts; its rows count in the order of its partitions. A streaming frame gives each
    batch's alerts, and remembers between batches in ``state``: a folder (or URI) that all workers reach, by default
    ``crossline-state`` in the working directory, one folder per query in it. Its alerts may be written anywhere with
    ``writeStream``; the checkpoint belongs to that query, and state to the checkpoint.

    ``shards``: in how many parts keys are judged, by default the session's parallelism; fixed for the life of a
    checkpoint. Columns: see ``ALERT_SCHEMA``; ``alert`` is the whole alert as JSON. Dead letters and late records are
    only in pipelines. ``partition_lag_ms``: how far a row's ingest time may be behind the highest of the batches before
    and still find its windows whole.

    Raises:
        UsageError: the frame's columns do not fit the stream, or no rule reads it.
    """
    check_frame(frame, stream.name, stream.spec)
    read = sorted({version.rule.source_topic for version in rules.versions})
    if stream.name not in read:
        raise UsageError(f"no rule reads stream {stream.name}; the rules read {', '.join(read) or 'nothing'}")
    for version in rules.versions:
        bases = {base for source in version.rule.reading.sources for base in bases_of(source, rules.heads)}
        beside = sorted(bases - {stream.name})
        if beside and rules.base(version.rule) == stream.name:
            raise UsageError(
                f"rule {version.rule.rule_id} looks at {', '.join(beside)} besides {stream.name}; a frame is of one "
                "stream; leave the rule out, or run it in a pipeline or a backtest"
            )
    _prepare(frame)
    count = shards or max(1, frame.sparkSession.sparkContext.defaultParallelism)
    book = Book(
        rules, {stream.name: stream.spec}, defaults or Defaults(), count, Bounds(partition_lag_ms), named_lists(lists)
    )
    book.plans()  # what does not compile is told here, not by a task
    root = str(Path(STATE_FOLDER).absolute()) if state is None else state
    cache = ShardCache(root, per_query=True, held_max=2 * count) if frame.isStreaming else None
    source = StaticBook(book.to_json())
    rows = wide(frame, hops_of(source, TableIntake(stream.name), KeptJudge(source, cache, count)), count)
    return rows.mapInArrow(_alerts, spark_schema())


def _prepare(frame: DataFrame) -> None:
    for name, value in RUNTIME_SETTINGS.items():
        frame.sparkSession.conf.set(name, value)


def _alerts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for kind, body in zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True):
            if kind == "alerts":
                yield from alert_table(read_alerts(body)).cast(_SPARK_ARROW).to_batches()


def spark_schema() -> str:
    """ALERT_SCHEMA as Spark writes schemas."""
    names = {pa.string(): "string", pa.int32(): "int", pa.float64(): "double"}
    return ", ".join(f"{f.name} {names.get(f.type, 'timestamp')}" for f in ALERT_SCHEMA)
