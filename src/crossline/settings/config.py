"""pipeline.yaml: what runs, read from text and checked whole. Reading files is the caller's business."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from crossline.basics.streams.schema import StreamsFile, StreamSpec, check_field, load_streams
from crossline.basics.texts.fieldtypes import GivenRecord
from crossline.basics.texts.problems import Finding, Path, Problem, RefusedError, nearest, one_of, shown
from crossline.basics.texts.report import Report, place
from crossline.basics.texts.validation import findings_from_validation, refusal
from crossline.basics.texts.yamltext import Document, load_yaml
from crossline.basics.times import format_duration
from crossline.programs.alert_fields import default_findings
from crossline.programs.kinds import TimeMode
from crossline.rules.base import Defaults
from crossline.rules.breaker import Bound
from crossline.rules.policy.fallback import fallback_problems
from crossline.rules.policy.policy import Deciding, Policy, load_policy
from crossline.settings.decisions import DecisionSettings
from crossline.settings.fields import DurationMs, Settings, not_empty
from crossline.settings.kafka import KafkaSourceSettings, is_secret
from crossline.settings.process.engine import EngineSettings
from crossline.settings.process.lake import LakeSettings
from crossline.settings.process.serve import ServeSettings
from crossline.settings.process.slo import SloSettings, unmeasured
from crossline.settings.secrets import A_SECRET
from crossline.settings.sinks import Sink, same_topic, takes_decisions
from crossline.settings.sources import ControlTopic, Directory, ListsFrom, RulesDirectory, RulesFrom, RulesTopic, Source
from crossline.settings.tables import AnyTable, TableSettings, check_tables, with_tables
from crossline.settings.watch import BreakerSettings, WatchSettings

# Keys that hold a path, wherever they stand; relative ones start at the pipeline file's folder.
PATH_KEYS = frozenset(
    {"path", "dead_letters", "decisions", "parked", "figures", "checkpoint", "keys", "users"}
    | {"password_file", "ca_file", "cert_file", "key_file", "signing_key_file"}
)
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_KEY = ("key",)


class PipelineDefaults(Settings):
    """What holds for every rule that does not say otherwise."""

    time_mode: TimeMode = Field(
        default="event_time",
        description="Clock of the rules: `event_time`, or `processing_time`, which is ingest time.",
    )
    watermark_delay: DurationMs = Field(
        default=45_000, description="Up to this lateness (ingest time - event time) a record is on time."
    )
    allowed_lateness: DurationMs = Field(
        default=120_000, description="Beyond this lateness a record is never judged; it is kept as a late record."
    )
    record: GivenRecord = Field(default="none", description="What alerts carry of their record: `none`, `all`, fields.")
    breaker: BreakerSettings | None = Field(
        default=None, description="Most alerts of a rule in a time; with more it goes to shadow. None: any number."
    )

    @property
    def bound(self) -> Bound | None:
        """The breaker's, as rules take it."""
        return None if self.breaker is None else Bound(self.breaker.alerts_max, self.breaker.per)

    def findings(self) -> list[Finding]:
        """Bounds that cross."""
        if self.watermark_delay > self.allowed_lateness:
            found = f"{format_duration(self.watermark_delay)}, above the {format_duration(self.allowed_lateness)}"
            return [Finding(("watermark_delay",), f"{found} of allowed_lateness", "no more than allowed_lateness")]
        return []


def _check_name(value: Any) -> Any:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise refusal("a name of small letters, digits, and _ . -, at most 64, beginning with a letter or digit")


def _check_streams(value: Any) -> Any:
    if isinstance(value, str | dict) and value:
        return value
    raise refusal("the name of a stream file, or streams by name")


class PipelineFile(Settings):
    """The file pipeline.yaml as it is written."""

    schema_version: Literal[1] = Field(description="Version of this form of file.")
    name: Annotated[str, BeforeValidator(_check_name)] = Field(
        description="Name of the pipeline, and of its rule log: small letters, digits, `_`, `.`, `-`, at most 64."
    )
    streams: Annotated[Any, BeforeValidator(_check_streams)] = Field(
        description="A stream file, or streams by name, written as in one."
    )
    sources: Annotated[dict[str, Source], not_empty("at least one source, by the name of its stream")] = Field(
        description="Where the records of each stream come from, by the name of the stream."
    )
    rules: RulesFrom = Field(description="Where the rules are; changes are loaded while the pipeline runs.")
    figures: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the shared figures that rules name; they may stand beside the rules too.",
    )
    lists: ListsFrom | None = Field(
        default=None, description="Where the named lists are; changes are loaded while the pipeline runs."
    )
    enrich: Annotated[dict[str, AnyTable], BeforeValidator(check_tables)] = Field(
        default_factory=dict,
        description="Tables by name, whose rows become fields of records, as rules write them: `NAME.COLUMN`; changes "
        "are loaded while the pipeline runs.",
    )
    sinks: Annotated[list[Sink], not_empty("at least one sink, for example {kind: console}")] = Field(
        description="Where alerts go, each to all of these."
    )
    defaults: PipelineDefaults = Field(
        default_factory=PipelineDefaults, description="What holds for rules that do not say otherwise."
    )
    engine: EngineSettings = Field(default_factory=EngineSettings, description="How the pipeline runs.")
    policy: str | None = Field(
        default=None,
        min_length=1,
        description="Policy file; with one, the hits on a record become a decision. It is read at the start.",
    )
    decisions: DecisionSettings | None = Field(
        default=None, description="Which decisions are emitted, and where; they need a `policy`."
    )
    watch: WatchSettings | None = Field(
        default=None, description="Where the run may be watched: figures for Prometheus, and how it is. None: nowhere."
    )
    serve: ServeSettings | None = Field(
        default=None, description="The decision API: where it listens, how it answers, who may ask. None: nowhere."
    )
    slo: SloSettings | None = Field(
        default=None, description="What is promised of latency, lag, checkpoint and availability. None: nothing."
    )
    lake: LakeSettings | None = Field(
        default=None, description="Iceberg tables with every record, alert and decision. None: no lake."
    )

    def findings(self) -> list[Finding]:
        """Sinks of one topic; decisions without a policy, or with nowhere to go."""
        found = same_topic(self.sinks)
        if self.policy is not None:
            return [*found, *takes_decisions(self.sinks, self.decisions)]
        if self.serve is not None:
            found.append(Finding(("serve",), "no policy", "policy: FILE, by which the API answers"))
        if self.decisions:
            found.append(Finding(("decisions",), "no policy", "policy: FILE, by which is decided"))
        return found


@dataclass(frozen=True, slots=True)
class PipelineConfig:
    """A pipeline that was checked whole: its streams are read, each source has its stream. Paths are as written.

    ``tables``: by name; ``streams`` have their fields.
    """

    name: str
    streams: dict[str, StreamSpec]
    sources: dict[str, Source]
    rules: RulesDirectory | RulesTopic
    lists: Directory | ControlTopic | None
    sinks: tuple[Sink, ...]
    defaults: PipelineDefaults
    engine: EngineSettings
    policy: Policy | None = None
    decisions: DecisionSettings = field(default_factory=DecisionSettings)
    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    figures: str | None = None
    watch: WatchSettings | None = None
    serve: ServeSettings | None = None
    slo: SloSettings | None = None
    lake: LakeSettings | None = None


def rule_defaults(pipeline: PipelineConfig) -> Defaults:
    """What holds for rules that do not say otherwise, as they take it."""
    given = pipeline.defaults
    return Defaults(
        time_mode=given.time_mode,
        watermark_delay_ms=given.watermark_delay,
        allowed_lateness_ms=given.allowed_lateness,
        record=given.record,
    )


def deciding_of(pipeline: PipelineConfig) -> Deciding | None:
    """How the pipeline decides; None where it does not."""
    if pipeline.policy is None:
        return None
    given = pipeline.decisions
    return Deciding(pipeline.policy, given.emit == "all", given.sink_topic, given.path, pipeline.name)


def load_pipeline(text: str, source: str, read: Callable[[str], str]) -> PipelineConfig:
    """The pipeline that ``text`` describes; ``source`` is what the file is called in messages.

    ``read`` gives the text of a file that is named relative to the pipeline file; what it raises as OSError, ValueError
    (no UTF-8, no name that a file can have) or RefusedError becomes a problem. Raises RefusedError with all that is
    wrong, in this file and the stream file.
    """
    document = load_yaml(text, source)
    report = Report(document)
    if not isinstance(document.data, dict):
        report.add((), shown(document.data), "a mapping with schema_version, name, streams, sources, rules, sinks")
        report.raise_if_any()
    file: PipelineFile | None = None
    try:
        file = PipelineFile.model_validate(document.data)
    except ValidationError as error:
        for finding in findings_from_validation(error, PipelineFile):
            report.take(finding)
    streams, elsewhere = _streams(document, report, read)
    policy, more = _other_file(document, report, read, "policy", load_policy)
    elsewhere += more
    elsewhere += _fallback(document, report, read, policy, streams)
    _check_sources(document, report, streams)
    if file is not None and streams is not None:
        streams, findings = with_tables(streams, file.enrich)
        promised = unmeasured(file.slo, file.serve, file.sources, streams)
        for finding in (*findings, *default_findings(file.defaults.record, streams), *promised):
            report.take(finding)
        _check_topics(file, streams, report)
    _check_paths(document.data, (), report)
    if file is None or streams is None or report.problems or elsewhere:
        problems = sorted(_without_secrets(report.problems), key=lambda problem: problem.line)
        raise RefusedError([*problems, *elsewhere])
    return PipelineConfig(
        file.name,
        streams,
        file.sources,
        file.rules,
        file.lists,
        tuple(file.sinks),
        file.defaults,
        file.engine,
        policy,
        file.decisions or DecisionSettings(),
        file.enrich,
        file.figures,
        file.watch,
        file.serve,
        file.slo,
        file.lake,
    )


def _streams(
    document: Document, report: Report, read: Callable[[str], str]
) -> tuple[dict[str, StreamSpec] | None, list[Problem]]:
    """The streams, None where they are not to be had, and what is wrong with a stream file of its own."""
    written = document.data.get("streams")
    if isinstance(written, str):
        return _other_file(document, report, read, "stream", load_streams, key="streams")
    if isinstance(written, dict) and written:
        try:
            return StreamsFile.model_validate({"schema_version": 1, "streams": written}).specs(""), []
        except ValidationError as error:
            report.problems.extend(place(each, document) for each in findings_from_validation(error, StreamsFile))
    return None, []


_Loaded = TypeVar("_Loaded")


def _other_file(
    document: Document,
    report: Report,
    read: Callable[[str], str],
    what: str,
    load: Callable[[str, str], _Loaded],
    key: str | None = None,
) -> tuple[_Loaded | None, list[Problem]]:
    """What stands in the file that ``key`` (by default ``what``) names, None where it is not to be had.

    Second: what is wrong in that file. That it cannot be read is a problem of this one.
    """
    written = document.data.get(key or what)
    if isinstance(written, str) and written:
        try:
            return load(read(written), written), []
        except RefusedError as error:
            return None, list(error.problems)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            report.add((key or what,), shown(written), f"a {what} file that can be read ({reason})")
    return None, []


def _fallback(
    document: Document,
    report: Report,
    read: Callable[[str], str],
    policy: Policy | None,
    streams: Mapping[str, StreamSpec] | None,
) -> list[Problem]:
    """What of the policy's fallback does not fit the streams."""
    if policy is None or streams is None or not policy.fallback:
        return []

    def check(text: str, source: str) -> None:
        problems = fallback_problems(text, source, policy.fallback, streams)
        if problems:
            raise RefusedError(problems)

    return _other_file(document, report, read, "policy", check)[1]


def _check_sources(document: Document, report: Report, streams: dict[str, StreamSpec] | None) -> None:
    sources = document.data.get("sources")
    if streams is None or not isinstance(sources, dict):
        return
    for name in sources:
        if name not in streams:
            hint = nearest(name, streams) or f"the streams: {one_of(streams, 30)}"
            report.add(("sources", name), f"source for stream {shown(name)}", "the name of a declared stream", hint)


def _check_topics(file: PipelineFile, streams: dict[str, StreamSpec], report: Report) -> None:
    """Avro in a topic is read by schemas of a registry, and nothing else is; keys are fields of the records."""
    for name, source in file.sources.items():
        if not isinstance(source, KafkaSourceSettings) or name not in streams:
            continue
        if streams[name].format == "avro" and source.registry is None:
            hint = "registry: {url: http://…}, whose schemas the records name"
            report.add(("sources", name), "no registry", "the schema registry of a stream of format avro", hint)
        if source.key is not None and (finding := check_field(source.key, streams[name].own_columns, name, _KEY)):
            report.add(("sources", name, *_KEY), finding.found, finding.expected, finding.hint)
        if streams[name].format != "avro" and source.registry is not None:
            found = f"a registry for records of {streams[name].format}"
            report.add(("sources", name, "registry"), found, "a stream of format: avro")


def _check_paths(data: Any, at: Path, report: Report) -> None:
    """A NUL ends a name for the system: no file can be called so."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        if key in PATH_KEYS and isinstance(value, str) and "\0" in value:
            report.add((*at, key), shown(value), "a path without a NUL")
        _check_paths(value, (*at, key), report)


def _without_secrets(problems: Sequence[Problem]) -> list[Problem]:
    """``problems`` without the text of lines with a password: reports are logged."""
    lines = {each.line for each in problems if each.found == A_SECRET or is_secret(each.path.rpartition(".")[2])}
    return [replace(each, snippet="") if each.line in lines else each for each in problems]


def in_folder(pipeline: PipelineConfig, folder: str) -> PipelineConfig:
    """``pipeline`` with its relative paths (those of ``PATH_KEYS``) joined to ``folder``."""
    return replace(
        pipeline,
        streams={name: _with_tokens_in(spec, folder) for name, spec in pipeline.streams.items()},
        sources={name: _moved(each, folder) for name, each in pipeline.sources.items()},
        rules=_moved(pipeline.rules, folder),
        lists=_moved(pipeline.lists, folder) if pipeline.lists is not None else None,
        sinks=tuple(_moved(each, folder) for each in pipeline.sinks),
        engine=_moved(pipeline.engine, folder),
        tables={name: _moved(each, folder) for name, each in pipeline.tables.items()},
        decisions=_moved(pipeline.decisions, folder),
        figures=None if pipeline.figures is None else posixpath.join(folder, pipeline.figures),
        watch=_moved(pipeline.watch, folder) if pipeline.watch is not None else None,
        serve=_moved(pipeline.serve, folder) if pipeline.serve is not None else None,
        slo=_moved(pipeline.slo, folder) if pipeline.slo is not None else None,
        lake=_moved(pipeline.lake, folder) if pipeline.lake is not None else None,
    )


def _with_tokens_in(spec: StreamSpec, folder: str) -> StreamSpec:
    return spec if spec.tokens is None else spec.model_copy(update={"tokens": spec.tokens.in_folder(folder)})


def _moved(settings: Any, folder: str) -> Any:
    changes: dict[str, Any] = {}
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings):
            changes[name] = _moved(value, folder)
        elif isinstance(value, list) and all(isinstance(each, Settings) for each in value):
            changes[name] = [_moved(each, folder) for each in value]
        elif name in PATH_KEYS and isinstance(value, str) and "://" not in value:
            changes[name] = posixpath.join(folder, value)
    return settings.model_copy(update=changes)
