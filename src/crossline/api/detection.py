"""``detect`` and ``figures``: a function each for all kinds of data."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from crossline.api.declarations import FilePath, Stream, check_single_stream, rules_of, stream_of
from crossline.api.detector import alerts_of
from crossline.api.feature_queries import FigurePlan, figure_plan
from crossline.api.results import Alerts, Figures
from crossline.basics.conditions.lists import named_lists
from crossline.basics.errors import UsageError
from crossline.basics.times import PARTITION_LAG_MS
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.single_run import SingleRun
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.feature_table import FeatureBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STATE_FOLDER = "crossline-state"


@overload
def detect(
    data: DataFrame,
    rules: RuleSet | FilePath,
    stream: Stream | FilePath,
    *,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
    shards: int | None = None,
    state: str | None = None,
) -> DataFrame: ...


@overload
def detect(  # type: ignore[overload-cannot-match]  # where Spark's types are not looked at
    data: Any,
    rules: RuleSet | FilePath,
    stream: Stream | FilePath,
    *,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
) -> Alerts: ...


def detect(
    data: Any,
    rules: RuleSet | FilePath,
    stream: Stream | FilePath,
    *,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
    shards: int | None = None,
    state: str | None = None,
) -> Any:
    """Judge the records of one stream by rules, and return the alerts.

    A table or an iterable is judged in this process, without Spark. A Spark DataFrame is judged in its session, whose
    settings are not changed; ``spark.sql.execution.arrow.maxRecordsPerBatch`` of 200000 is faster. A static frame gives
    all its alerts; its rows are judged in the order of its partitions. A streaming frame gives the alerts of each
    micro-batch, and keeps its state between them in ``state``.

    Args:
        data: a table of any Arrow library (pyarrow, pandas, Polars, DuckDB), an iterable of dicts, or a Spark
            DataFrame, static or streaming. Columns are the fields of the stream; nested fields are structs. Records are
            judged in their order.
        rules: a RuleSet of ``load_rules``, or a rule file or folder.
        stream: a Stream of ``load_streams``, or a stream file with one stream.
        lists: values of the named lists that rules read, by name.
        defaults: the clock and lateness of rules that do not set them.
        partition_lag_ms: how far the ingest time of a record may lie behind the highest one before it, in ms, with its
            windows still complete.
        shards: Spark only. The number of shards of the keys, by default the session's parallelism; it is fixed for the
            life of a checkpoint.
        state: streaming frames only. A folder or URI that all workers reach, by default ``crossline-state`` in the
            working directory; one folder per query in it.

    Returns:
        Alerts: ``to_arrow()``, ``to_pandas()``, ``to_polars()``, or any library that takes Arrow's C stream; items are
        the alerts as JSON values. Of a Spark DataFrame, a DataFrame with the same columns.

    Raises:
        RefusedError: rule or stream files have errors; the message lists all of them with file:line.
        UsageError: ``data`` is no collection of records, its columns do not fit the stream, or no rule reads it.

    Example:
        >>> alerts = crossline.detect(polars_frame, "rules/", "stream.yaml")
        >>> alerts.to_polars().group_by("rule_id").len()
    """
    stream = stream_of(stream)
    rules = rules_of(rules, stream)
    check_single_stream(rules, stream)
    snapshot = _snapshot(rules, stream, defaults, partition_lag_ms, lists)
    if _is_spark(data):
        from crossline.api.spark import detect_in_spark  # noqa: PLC0415 - Spark is loaded where it is used

        return detect_in_spark(data, snapshot, stream, shards, _state(state))
    _check_in_process(shards, state)
    run = SingleRun(snapshot, stream.name)
    return alerts_of([run.judge(rows) for rows in run.batches(data)])


@overload
def figures(
    data: DataFrame,
    figures: FilePath,
    stream: Stream | FilePath,
    *,
    rules: RuleSet | FilePath | None = None,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
    shards: int | None = None,
    state: str | None = None,
) -> DataFrame: ...


@overload
def figures(  # type: ignore[overload-cannot-match]  # as above
    data: Any,
    figures: FilePath,
    stream: Stream | FilePath,
    *,
    rules: RuleSet | FilePath | None = None,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
) -> Figures: ...


def figures(
    data: Any,
    figures: FilePath,
    stream: Stream | FilePath,
    *,
    rules: RuleSet | FilePath | None = None,
    lists: Mapping[str, Sequence[Any]] | None = None,
    defaults: Defaults | None = None,
    partition_lag_ms: int = PARTITION_LAG_MS,
    shards: int | None = None,
    state: str | None = None,
) -> Any:
    """Compute the figures (features) of every record as of that record, for example to train a model.

    Args:
        data: as in ``detect``.
        figures: a file with figures, or a folder of such files; all of them are of ``stream``.
        stream: a Stream of ``load_streams``, or a stream file with one stream.
        rules: the rules whose hits make up risk scores; needed only for risk scores.
        lists: values of the named lists that figures read, by name.
        defaults: the clock and lateness of figures that do not set them.
        partition_lag_ms: as in ``detect``.
        shards: Spark only, as in ``detect``.
        state: streaming frames only, as in ``detect``.

    Returns:
        Figures: a row for each record that is no duplicate and not too late, in order, with ``record_id``,
        ``event_time`` and a column for each figure, null if it has no value. It converts as the alerts of ``detect``
        do. Of a Spark DataFrame, a DataFrame.

    Raises:
        RefusedError: the files have errors; the message lists all of them with file:line.
        UsageError: ``data`` is no collection of records, its columns do not fit the stream, or the figures are of
            several streams.

    Example:
        >>> table = crossline.figures(frame, "figures.yaml", "stream.yaml").to_pandas()
    """
    stream = stream_of(stream)
    scored_rules = None if rules is None else rules_of(rules, stream)
    plan: FigurePlan = figure_plan(Path(figures), stream, scored_rules)
    snapshot = replace(_snapshot(plan.rules, stream, defaults, partition_lag_ms, lists), feature_query=True)
    if _is_spark(data):
        from crossline.api.spark import figures_in_spark  # noqa: PLC0415 - as above

        return figures_in_spark(data, snapshot, plan, stream, shards, _state(state))
    _check_in_process(shards, state)
    run = SingleRun(snapshot, stream.name)
    outcomes = [run.judge(rows) for rows in run.batches(data)]
    tables = [FeatureBatch.of(each.feature_rows).table(plan.columns) for each in outcomes]
    table = pa.concat_tables(tables) if tables else plan.columns.schema.empty_table()
    dead = [letter for each in outcomes for letter in each.dead]
    return Figures(table, records=sum(each.figures["records"] for each in outcomes), dead_letters=dead)


def _snapshot(
    rules: RuleSet,
    stream: Stream,
    defaults: Defaults | None,
    partition_lag_ms: int,
    lists: Mapping[str, Sequence[Any]] | None,
) -> PlanSnapshot:
    """The plan snapshot of one stream in one shard."""
    return PlanSnapshot(
        rules=rules,
        streams={stream.name: stream.spec},
        defaults=defaults or Defaults(),
        shards=1,
        bounds=Bounds(partition_lag_ms),
        lists=named_lists(lists),
    )


def _is_spark(data: Any) -> bool:
    """Whether ``data`` is a Spark DataFrame; Spark is not loaded to find out."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark.sql import DataFrame  # noqa: PLC0415 - it is loaded already

    return isinstance(data, DataFrame)


def _state(state: str | None) -> str:
    return str(Path(STATE_FOLDER).absolute()) if state is None else state


def _check_in_process(shards: int | None, state: str | None) -> None:
    """Check that no option of Spark is given for a table. Raises UsageError."""
    for name, value in (("shards", shards), ("state", state)):
        if value is not None:
            raise UsageError(f"{name}={value!r} is for Spark DataFrames; leave it out, or use a Detector to keep state")
