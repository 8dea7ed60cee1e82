"""Where rules and lists come from: a folder that is watched, or a compacted topic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from crossline.core.settings.fields import Settings, by_kind
from crossline.core.settings.kafka import ClientOptions, KafkaSecurity
from crossline.core.texts.validation import refusal

ReviewNeed = Literal["none", "required"]
_REVIEW = (
    "`required`: a version needs the approval of another principal (`crossline rules approve`) before it is effective."
)


class Directory(Settings):
    """A folder that is watched while the pipeline runs."""

    kind: Literal["directory"] = Field(description="Which kind this is.")
    path: str = Field(min_length=1, description="The folder.")


class RulesDirectory(Directory):
    """A folder of rule files, which is watched while the pipeline runs."""

    review: ReviewNeed = Field(default="none", description=_REVIEW)


class ControlTopic(Settings):
    """A compacted topic of one partition, which is read while the pipeline runs."""

    kind: Literal["kafka"] = Field(description="Which kind this is.")
    brokers: str = Field(min_length=1, description="Bootstrap servers, `host:port` separated by commas.")
    topic: str = Field(min_length=1, description="Topic; rules and lists may share one.")
    security: KafkaSecurity = Field(
        default_factory=KafkaSecurity, description="How to connect; by default, without asking."
    )
    options: ClientOptions = Field(default={}, description="Further options of the Kafka client, by its own names.")


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
