"""Where a pipeline's records come from; and its rules and lists: a folder that is watched, or a compacted topic."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.validation import refusal
from crossline.settings.fields import Settings, by_kind
from crossline.settings.kafka import ClientOptions, KafkaSecurity, KafkaSourceSettings

# Parameters that only one workload has.
_ONLY = {"merchants": "tx", "with_device": "tx", "frauds_per_epoch": "cards"}
_OF_THE_SOURCE = {"kind", "workload", "records", "pace_per_s"}


class FilesSettings(Settings):
    """The files that match a pattern, in name order, as one log; a directory of files is one log."""

    kind: Literal["files"] = Field(description="Which kind of source this is.")
    path: str = Field(
        min_length=1, description="Files to read: a pattern such as `in/*.jsonl`, a directory, or one file."
    )
    order: Literal["name"] = Field(default="name", description="Order of the files in the log.")
    max_batch_bytes: int | None = Field(
        default=None, ge=1, description="Most bytes of one batch; by default `engine.max_batch_bytes`."
    )


class GeneratorSettings(Settings):
    """Made records: equal settings make equal records. What is left out is the workload's own default."""

    kind: Literal["generator"] = Field(description="Which kind of source this is.")
    workload: Literal["tx", "cards"] = Field(
        description="`tx`: the load that figures are measured on; `cards`: card traffic with planted frauds."
    )
    records: int | None = Field(default=None, ge=0, description="How many records; by default, without end.")
    pace_per_s: int | None = Field(
        default=None, ge=1, description="How many records become available per second; by default, all at once."
    )
    seed: int | None = Field(default=None, ge=0, description="Seed.")
    accounts: int | None = Field(default=None, ge=1, description="How many accounts pay.")
    merchants: int | None = Field(default=None, ge=1, description="How many merchants there are (tx).")
    rate_per_s: int | None = Field(default=None, ge=1, description="Records per second of event time.")
    disorder_ms: int | None = Field(
        default=None,
        ge=0,
        description="How far a record's event time may lie behind that of an earlier one, in milliseconds.",
    )
    base_ms: int | None = Field(default=None, description="Event time of record 0, in milliseconds of the epoch.")
    with_device: bool | None = Field(default=None, description="Whether records have a device_id (tx).")
    frauds_per_epoch: int | None = Field(
        default=None, ge=0, description="Frauds of each kind in 20 minutes of event time (cards)."
    )

    def findings(self) -> list[Finding]:
        """Parameters that belong to the other workload."""
        return [
            Finding((name,), shown(getattr(self, name)), f"no {name}, which only workload {workload} has")
            for name, workload in _ONLY.items()
            if getattr(self, name) is not None and self.workload != workload
        ]

    def parameters(self) -> dict[str, Any]:
        """The workload's parameters that were given."""
        return self.model_dump(exclude=_OF_THE_SOURCE, exclude_none=True)


class ApiSettings(Settings):
    """Records that came through the decision API, in a log of its own; for pipelines without Kafka."""

    kind: Literal["api"] = Field(description="Which kind of source this is.")
    path: str = Field(min_length=1, description="Folder of the log: files of JSON lines, written by this API only.")
    segment_bytes: int = Field(
        default=64 << 20, ge=1 << 16, description="Size from which on the log goes on in a new file."
    )


SOURCES: dict[str, type[Settings]] = {
    "files": FilesSettings,
    "generator": GeneratorSettings,
    "kafka": KafkaSourceSettings,
    "api": ApiSettings,
}
Source = Annotated[
    FilesSettings | GeneratorSettings | KafkaSourceSettings | ApiSettings, PlainValidator(by_kind(SOURCES))
]

ReviewNeed = Literal["none", "required", "proven"]
_REVIEW = (
    "`required`: a version needs the approval of another principal (`crossline rules approve`) before it is effective. "
    "`proven`: an approval that names the proof of its text besides (`crossline rules prove`)."
)


class Directory(Settings):
    """A folder that is watched while the pipeline runs."""

    kind: Literal["directory"] = Field(description="Which kind this is.")
    path: str = Field(min_length=1, description="The folder.")


class RulesDirectory(Directory):
    """A folder of rule files, which is watched while the pipeline runs."""

    review: ReviewNeed = Field(default="none", description=_REVIEW)


class TopicPlace(Settings):
    """A compacted topic, which is read while the pipeline runs, and how to get there."""

    kind: Literal["kafka"] = Field(description="Which kind this is.")
    brokers: str = Field(min_length=1, description="Bootstrap servers, `host:port` separated by commas.")
    topic: str = Field(min_length=1, description="Topic; rules and lists may share one, a table has its own.")
    security: KafkaSecurity = Field(
        default_factory=KafkaSecurity, description="How to connect; by default, without asking."
    )
    options: ClientOptions = Field(default={}, description="Further options of the Kafka client, by its own names.")


class ControlTopic(TopicPlace):
    """A compacted topic of one partition, which is read while the pipeline runs."""


class RulesTopic(ControlTopic):
    """A compacted topic of rules, which is read while the pipeline runs; see control-topics.md."""

    path: str = Field(
        default="rules", min_length=1, description="Folder of the rule log, and of what is kept beside it."
    )
    refusals_topic: str | None = Field(
        default=None, min_length=1, description="Topic for what was refused, and why; by default, the rule log alone."
    )
    review: ReviewNeed = Field(default="none", description=_REVIEW)


def _written(value: object) -> object:
    if isinstance(value, str):
        raise refusal("a mapping with kind and path", f"write {{kind: directory, path: {value}}}")
    return value


_RULES = by_kind({"directory": RulesDirectory, "kafka": RulesTopic})
_LISTS = by_kind({"directory": Directory, "kafka": ControlTopic})

RulesFrom = Annotated[RulesDirectory | RulesTopic, PlainValidator(lambda value: _RULES(_written(value)))]
ListsFrom = Annotated[Directory | ControlTopic, PlainValidator(lambda value: _LISTS(_written(value)))]
