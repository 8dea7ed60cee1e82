"""A pipeline from its configuration: the only place where settings become components."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import SparkSession

from crossline.basics.errors import UsageError
from crossline.evaluate.bounds import Bounds
from crossline.generate.source import read_source
from crossline.io.kafka.transactions.decision_topic import DecisionTopic
from crossline.io.objects.location import is_uri
from crossline.io.outbox.batch_spool import BatchSpool
from crossline.io.outbox.folders import destination_of, folder_names
from crossline.io.outbox.sink import OutboxSink, place_in, waiting_in
from crossline.io.sinks.base import Delivery, Sink, SinkWatch, build_sink
from crossline.io.sinks.console import ConsoleSink
from crossline.io.tokens.opening import check_stores
from crossline.logs import get_logger
from crossline.rule_registry.content import read_pipeline
from crossline.rule_registry.directory import IngestClock, log_path
from crossline.rules.policy.policy import Deciding
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.rule_feed import DirectoryFeed, FixedFeed
from crossline.runtime.changes.stored_past import StoredPast
from crossline.runtime.java.launch import RunningJava, is_on_this_machine
from crossline.runtime.java.settings import DAEMON
from crossline.runtime.pipeline.feed_sink import FEED, FeedSink, InForce, SourceEnds
from crossline.runtime.pipeline.lake_spool_sink import BatchRanges, LakeSpoolSink
from crossline.runtime.pipeline.pipeline import Pipeline
from crossline.runtime.pipeline.planner import PipelineSettings
from crossline.runtime.snapshot.checkpoint import Checkpoint, SourceMark
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint, claim_checkpoint
from crossline.runtime.snapshot.previous_snapshot import previous_snapshot
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.snapshot.stream_changes import check_streams
from crossline.runtime.sources.files import FORMS, FileInput
from crossline.runtime.sources.inputs import api_source, file_source, generated_source
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.spark.session import build_session, wake_workers
from crossline.runtime.state_log.reshard import settle
from crossline.runtime.work.totals import Totals
from crossline.runtime.workers.read_ahead import begin_reading
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.config import deciding_of, rule_defaults
from crossline.settings.fields import Settings
from crossline.settings.kafka import KafkaSinkSettings, KafkaSourceSettings
from crossline.settings.sinks import ConsoleSettings
from crossline.settings.sources import ApiSettings, FilesSettings, GeneratorSettings

SHARDS_PER_CORE = 1
_READABLE = {"files": FORMS, "kafka": ("json", "avro")}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How this run differs from the file.

    ``complete``: what is there is judged, then it ends; a last line without an end counts if it is whole (``drain`` of
    ``file_source``).
    ``screen``: where a console sink prints, the standard output where None. ``sink_watch``: receives the state of
    sinks. ``allow_no_rules``: whether it starts where no rule is left to judge by. ``stored_past``: by the folder of
    the checkpoint, the store of records that topics have deleted.
    """

    complete: bool = False
    on_batch: Callable[[Delivery, Totals], None] | None = None
    screen: TextIO | None = None
    sink_watch: SinkWatch | None = None
    allow_no_rules: bool = True
    stored_past: Callable[[str], StoredPast] | None = None

    def sink(self, settings: Settings, pipeline: str) -> Sink:
        """The sink of ``settings``; sentences go to ``screen`` where one is given."""
        if isinstance(settings, ConsoleSettings) and self.screen is not None:
            return ConsoleSink(self.screen)
        return build_sink(settings, pipeline)


def read_config(path: str) -> Config:
    """The pipeline file at ``path``, checked whole, its relative paths still as written.

    Raises RefusedError with all that is wrong in it, UsageError where it cannot be read.
    """
    return read_pipeline(path)


def session_for(config: Config) -> SparkSession:
    """A session for the pipeline, whose workers are being started."""
    engine = config.engine
    spark = build_session(config.name, engine.master, settings=engine.spark, python=engine.python)
    wake_workers(spark)
    return spark


@dataclass(frozen=True, slots=True)
class FeaturePipeline:
    """Figures that a pipeline computes for every record, without judging: what feeds them, and where they go."""

    feed: FixedFeed
    sink: Sink


def hold(config: Config) -> Checkpoint:
    """The checkpoint of ``config``, held and whole. Raises StateError where another run has it."""
    held = claim_checkpoint(config.engine.checkpoint)
    try:
        if settle(held.folder):
            log.info("a reshard that was cut off is finished", checkpoint=str(held.folder))
    except BaseException:
        held.release()
        raise
    return held


def hold_ahead(config: Config, java: RunningJava | None) -> Checkpoint | None:
    """The same before there is a session, so that its states are read while ``java`` comes up.

    None where nobody would read them; a checkpoint on a store is claimed later, which may take its time.
    """
    if java is None or java.zygote is None or is_uri(config.engine.checkpoint):
        return None
    held = hold(config)
    begin_reading(java.folder.path / "zygote", str(held.folder), held.state_root, config.engine.master)
    return held


def assemble(
    spark: SparkSession,
    config: Config,
    options: RunOptions | None = None,
    features: FeaturePipeline | None = None,
    held: Checkpoint | None = None,
) -> Pipeline:
    """The pipeline of ``config``, whose paths are absolute or relative to the working directory; not started.

    It holds its checkpoint from here on, until it is stopped; ``held``: it is held already. ``features``: it does this
    alone. Raises StateError where the checkpoint is another's, UsageError where it has other figures.
    """
    try:
        check_stores(config.streams, one_machine=is_on_this_machine(spark.sparkContext.master))
        held = held or hold(config)
        order = held.owned_by(config.name, [_mark(stream, source) for stream, source in config.sources.items()])
        return _assembled(spark, config, options or RunOptions(), held, order, features)
    except BaseException:
        if held is not None:
            held.release()
        raise


def _mark(stream: str, source: Any) -> SourceMark:
    """What of a source must stay. A path may change: which files were read is known by file, not by pattern."""
    reads: dict[str, Any] = {}
    if isinstance(source, KafkaSourceSettings):
        reads = {"topics": sorted(name.strip() for name in source.topic.split(","))}
    if isinstance(source, GeneratorSettings):
        reads = source.model_dump(mode="json", exclude_none=True, exclude={"kind", "records", "pace_per_s"})
    return SourceMark(stream, source.kind, reads)


def _assembled(
    spark: SparkSession,
    config: Config,
    options: RunOptions,
    held: Checkpoint,
    order: Sequence[str],
    features: FeaturePipeline | None,
) -> Pipeline:
    cores = spark.sparkContext.defaultParallelism
    before = _before(config, held)
    shards = _shards(config, before, cores)
    if features is not None:
        _check_figures(features.feed, before, held.folder)
    snapshot = PlanSnapshot(
        RuleSet(),
        streams=dict(config.streams),
        defaults=rule_defaults(config),
        shards=shards,
        bounds=Bounds(config.engine.partition_lag),
        deciding=None if features is not None else _deciding(config, before),
        feature_query=features is not None,
    )
    settings = _pipeline_settings(spark, config, held, shards, decides=features is None)
    sources = [_source(config, stream, number, held, cores, options) for number, stream in enumerate(order)]
    if features is not None:
        return Pipeline(
            spark,
            settings,
            snapshot,
            sources,
            features.feed,
            [features.sink],
            on_batch=options.on_batch,
            checkpoint=held,
            before=before,
        )
    held.keep_log(log_path(config.rules.path, config.name))
    feed = DirectoryFeed(config, clocks_of(config), held.folder / "tables", allow_no_rules=options.allow_no_rules)
    sinks = _sinks(config, options, held)
    in_force, past = InForce(), options.stored_past
    if config.serve is not None:
        ends = SourceEnds(str(held.folder), order)
        sinks.append(FeedSink(held.folder / FEED, ends, in_force, copy=held.keep_feed))
    if config.lake is not None:
        sinks.append(LakeSpoolSink(BatchSpool(held.lake_store), BatchRanges(str(held.folder), order)))
    pipeline = Pipeline(
        spark,
        settings,
        snapshot,
        sources,
        feed,
        sinks,
        on_batch=options.on_batch,
        checkpoint=held,
        before=before,
        sink_watch=options.sink_watch,
        stored_past=None if past is None else past(str(held.folder)),
    )
    in_force.snapshot = lambda: pipeline.snapshot
    return pipeline


def _before(config: Config, held: Checkpoint) -> PlanSnapshot | None:
    """What the run before left, whose states mean the same with the streams of ``config``."""
    before = previous_snapshot(held.folder)
    check_streams(before, config.streams, held.shown)
    return before


def _pipeline_settings(
    spark: SparkSession, config: Config, held: Checkpoint, shards: int, *, decides: bool
) -> PipelineSettings:
    """The settings of the run; ``decides``: it makes alerts and decisions, and not feature rows alone."""
    cores = spark.sparkContext.defaultParallelism
    here = is_on_this_machine(spark.sparkContext.master)
    local = spark.sparkContext.master.startswith("local[")
    # No more than are there: the requests decide which of them it keeps.
    held_max = shards if _has_state_servers(spark) else max(2, 2 * -(-shards // max(1, cores)))
    return PipelineSettings(
        name=config.name,
        checkpoint=str(held.folder),
        partitions=min(shards, cores),
        trigger_ms=config.engine.trigger,
        shards_held=held_max,
        backfill=config.engine.backfill,
        one_machine=local and shards <= held_max,
        in_process=config.engine.in_process != "never",
        placement=not local,
        standby=config.engine.standby,
        breaker=config.defaults.bound,
        state=held.state_root,
        tables=held.tables if isinstance(held, StoredCheckpoint) and not here else None,
        topic=_decision_topic(config) if decides else None,
        records_max=sum(
            _records_max(config, source)
            for source in config.sources.values()
            if isinstance(source, KafkaSourceSettings)
        ),
        within_ms=max(config.engine.trigger, config.engine.batch_within),
    )


def _sinks(config: Config, options: RunOptions, held: Checkpoint) -> list[Sink]:
    """The sinks of the file; those that no batch waits for keep in the checkpoint what they do not have yet."""
    left = {name: batches for name in held.sinks_waiting() if (batches := waiting_in(held.sink_store(name)))}
    known = {name: place_in(held.sink_store(name)) for name in left}
    places = [(settings.kind, destination_of(settings)) for settings in config.sinks]
    sinks: list[Sink] = []
    for settings, (_, place), name in zip(config.sinks, places, folder_names(places, known), strict=True):
        sink = options.sink(settings, config.name)
        if settings.behind:
            if left.pop(name, None) and known[name] not in {None, place}:
                log.warning("a sink gets what waits for the one in whose place it stands", folder=f"behind/{name}")
            sink = OutboxSink(sink, held.sink_store(name), watch=options.sink_watch, place=place)
        sinks.append(sink)
    for name, batches in left.items():
        log.warning("a sink that is not there any more has not got all", folder=f"behind/{name}", batches=batches)
    return sinks


def _deciding(config: Config, before: PlanSnapshot | None) -> Deciding | None:
    deciding = deciding_of(config)
    if deciding is not None and deciding.folder is not None:
        deciding = replace(deciding, folder=str(Path(deciding.folder).absolute()))
    _check_policy(deciding, before)
    return deciding


def _decision_topic(config: Config) -> DecisionTopic | None:
    """Where the tasks give decisions on all records; None where they do not."""
    if config.policy is None or config.decisions.emit != "all" or config.decisions.sink_topic is None:
        return None
    sinks = [sink for sink in config.sinks if isinstance(sink, KafkaSinkSettings)]
    return DecisionTopic.of(config.name, config.decisions.sink_topic, sinks, os.environ)


def _check_figures(feed: FixedFeed, before: PlanSnapshot | None, checkpoint: Path) -> None:
    """A column has one definition: rows written before under its name must have the same."""
    if before is not None and before.rules.fingerprint != feed.start()[0].fingerprint:
        raise UsageError(
            f"{checkpoint.parent}: holds figures of other definitions; expected the same ones; write these into a "
            "folder of their own"
        )


def _check_policy(deciding: Deciding | None, before: PlanSnapshot | None) -> None:
    """Ids of decisions have the policy's version in them: one version cannot mean two things."""
    known = before.deciding.policy if before is not None and before.deciding is not None else None
    if deciding is None or known is None or known.version != deciding.policy.version:
        return
    if known.digest != deciding.policy.digest:
        raise UsageError(
            f"policy: version {known.version} has decided before, with another content; give the policy a new version"
        )


def _shards(config: Config, before: PlanSnapshot | None, cores: int) -> int:
    """Fixed for the life of a checkpoint: a key must always be judged where its state is."""
    if before is not None:
        return before.shards
    return config.engine.shards if isinstance(config.engine.shards, int) else max(1, cores * SHARDS_PER_CORE)


def _has_state_servers(spark: SparkSession) -> bool:
    """Whether each shard has one place on this machine; else any worker may come to hold any of them."""
    return bool(spark.conf.get("spark.python.daemon.module", "") == DAEMON)


def clocks_of(config: Config) -> dict[str, IngestClock]:
    """By stream, where its ingest time comes from."""
    return {stream: _clock_of(config, stream) for stream in config.sources}


def _clock_of(config: Config, stream: str) -> IngestClock:
    """Whether ingest time comes from the records (files, generated traffic) or from a broker's clock."""
    from_broker = isinstance(config.sources[stream], KafkaSourceSettings) and config.streams[stream].ingest_time is None
    return "wall" if from_broker else "records"


def _records_max(config: Config, source: KafkaSourceSettings) -> int:
    return source.max_records_per_batch or config.engine.max_batch_records


def _check_format(config: Config, stream: str) -> None:
    """Which formats a source can be read in, in this version."""
    readable = _READABLE.get(config.sources[stream].kind, ("json",))
    form = config.streams[stream].format
    if form not in readable:
        kind = config.sources[stream].kind
        raise UsageError(
            f"stream {stream}: format {form} from a source of kind {kind} is not in this version; "
            f"expected {' or '.join(readable)}"
        )


def _source(config: Config, stream: str, number: int, held: Checkpoint, cores: int, options: RunOptions) -> SourcePlan:
    source, checkpoint = config.sources[stream], str(held.folder)
    _check_format(config, stream)
    if isinstance(source, KafkaSourceSettings):
        records_max = _records_max(config, source)
        headers = bool(config.streams[stream].headers)
        from crossline.runtime.sources.kafka import kafka_source, schemas_of  # noqa: PLC0415 - the client is an extra

        schemas = schemas_of(source, held.schemas(stream), os.environ)
        return kafka_source(stream, source, os.environ, records_max, checkpoint, number, schemas, headers=headers)
    if isinstance(source, GeneratorSettings):
        generator = read_source(source.model_dump(exclude_none=True))
        return generated_source(stream, generator, checkpoint, cores, config.engine.max_batch_records)
    if isinstance(source, FilesSettings):
        files = FileInput(stream, (source.path,), config.streams[stream].format)
        return file_source(
            files, checkpoint, cores, source.max_batch_bytes or config.engine.max_batch_bytes, drain=options.complete
        )
    if isinstance(source, ApiSettings):
        return api_source(stream, source.path, checkpoint, cores, config.engine.max_batch_bytes)
    raise UsageError(f"source kind {source.kind!r} of stream {stream} cannot be run")
