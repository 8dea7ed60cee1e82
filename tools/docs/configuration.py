"""Writes the reference of pipeline.yaml from its models.

``python -m tools.docs.configuration > docs/configuration.md``
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from crossline.basics.texts.fieldtypes import GivenRecord
from crossline.basics.times import format_duration
from crossline.rules.policy.fallback import FallbackBranch
from crossline.rules.policy.policy import Band, Branch, Policy
from crossline.settings.config import PipelineDefaults, PipelineFile
from crossline.settings.decisions import DecisionSettings
from crossline.settings.fields import DurationMs
from crossline.settings.kafka import KafkaSecurity
from crossline.settings.postgres import LedgerSettings
from crossline.settings.process.casework import CasesSettings, MoneySettings
from crossline.settings.process.engine import EngineSettings
from crossline.settings.process.lake import (
    LakeSettings,
    PostgresCatalogSettings,
    RestCatalogSettings,
    SqliteCatalogSettings,
)
from crossline.settings.process.serve import LimitSettings, OidcSettings, RevisionSettings, ServeSettings, TlsSettings
from crossline.settings.process.slo import (
    AvailabilityObjective,
    CheckpointObjective,
    LagObjective,
    LatencyObjective,
    SloSettings,
)
from crossline.settings.registry import RegistrySettings
from crossline.settings.sinks import SINKS
from crossline.settings.sources import SOURCES, ControlTopic, Directory, RulesDirectory, RulesTopic
from crossline.settings.tables import TableOfFiles, TableOfTopic
from crossline.settings.watch import BreakerSettings, OtlpSettings, WatchSettings

_HEAD = """\
# pipeline.yaml

Every key of a pipeline file. This page is written from the code by `python -m tools.docs.configuration`.

Relative paths start at the folder of the pipeline file. Unknown keys and wrong values are refused, all at once, each
with its line. Durations are written `200ms`, `45s`, `10 min`, `1h 30m`, `7d`. Passwords never stand in the file:
`password_env` names an environment variable, `password_file` a file; nothing else in the file is replaced by anything.
"""
_STREAMS = """\
## A stream, in `streams` or a stream file

A stream file has `schema_version: 1` and `streams`, a mapping of names to these. `tokens` beside them says where the
keys of sensitive fields are: see [sensitive.md](sensitive.md).

| key | value | default | meaning |
|---|---|---|---|
| `format` | `json` or `avro` or `csv` or `parquet` | `json` | How records are written. |
| `id` | text | required | The field that holds a record's id. |
| `event_time` | mapping | required | `field`, and `unit` (`ms`, `s`, `us`, `ns`, `iso8601`): when it happened. |
| `ingest_time` | mapping |  | The same: when it came in, where a field reports it. |
| `clocks` | mapping |  | By name, other times that every record has, each as `event_time`: rules may go by them. |
| `future_bound` | duration | `60 min` | How much later than it was there to be read a record may be dated. |
| `fields` | mapping | required | Types by name, nested as in the record; `?` marks what may be missing. |
| `sensitive` | mapping |  | Fields whose values become tokens, by dotted name; see [sensitive.md](sensitive.md). |

| type | is |
|---|---|
| `string` | text |
| `integer` | a whole number of 64 bits |
| `number` | a float of 64 bits |
| `boolean` | `true` or `false` |
| `timestamp` | an instant: RFC 3339 with its offset from UTC, or epoch milliseconds |
| `[TYPE]` | a list |

A whole number of any size may stand where a `number` is declared. What has more digits than a float holds is rounded to
the nearest one, 9007199254740993 to 9007199254740992 (but not a decimal of Avro, which is `bad_number` then);
declare amounts that must not lose a digit as `integer`, in cents. What is beyond its type is `bad_number`. Leap seconds
(`23:59:60`) are no instants here, in no field: `bad_time`.
"""
_WHEN = """\
A formula of a policy is written as in rules. It may name:

| name | is |
|---|---|
| `score` | the score of the record |
| `hits` | how many hits there are |
| `action`, `severity` | the gravest there is, as text: `action == 'block'`, `severity in ('high', 'critical')` |
| `actions.review`, `severities.high` and the like | how many hits ask for this, or are so grave |
| `rules.ID` | whether rule `ID` hit the record; `rules.card_burst and not rules.known_device` |
| `tags.TAG` | how many hits are of rules with this tag |

Ids and tags with other characters than letters, digits, `_` and `.` cannot be named; a tag does for such a rule.
"""
_DURATION = typing.get_args(DurationMs)[1]
_RECORD = typing.get_args(GivenRecord)[1]
_WORDS = {str: "text", int: "whole number", bool: "`true` or `false`", float: "number"}


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD, *_section("The file", PipelineFile), _STREAMS]
    for kind, model in SOURCES.items():
        parts += _section(f"A source of kind `{kind}`", model)
    parts += _section("`rules` of kind `directory`", RulesDirectory)
    parts += _section("`rules` of kind `kafka`", RulesTopic)
    parts += _section("`lists` of kind `directory`", Directory)
    parts += _section("`lists` of kind `kafka`", ControlTopic)
    parts += _section("A table of kind `files`, in `enrich`", TableOfFiles)
    parts += _section("A table of kind `kafka`, in `enrich`", TableOfTopic)
    for kind, model in SINKS.items():
        parts += _section(f"A sink of kind `{kind}`", model)
    parts += _section("`security`, in a source or sink of kind `kafka`", KafkaSecurity)
    parts += _section("`registry`, in a source of kind `kafka`", RegistrySettings)
    parts += _section("`defaults`", PipelineDefaults)
    parts += _section("`breaker`, in `defaults`", BreakerSettings)
    parts += _section("`engine`", EngineSettings)
    parts += _section("`decisions`", DecisionSettings)
    parts += _section("`watch`", WatchSettings)
    parts += _section("`otlp`, in `watch`", OtlpSettings)
    parts += _section("`serve`", ServeSettings)
    parts += _section("`tls`, in `serve`", TlsSettings)
    parts += _section("`ledger`, in `serve`", LedgerSettings)
    parts += _section("`oidc`, in `serve`", OidcSettings)
    parts += _section("`limits`, in `serve`", LimitSettings)
    parts += _section("`revisions`, in `serve`", RevisionSettings)
    parts += _section("`cases`, in `serve`", CasesSettings)
    parts += _section("`money`, in `serve.cases`", MoneySettings)
    parts += _section("`slo`", SloSettings)
    parts += _section("`alert_latency` and `decision_latency`, in `slo`", LatencyObjective)
    parts += _section("`lag`, in `slo`", LagObjective)
    parts += _section("`checkpoint`, in `slo`", CheckpointObjective)
    parts += _section("`availability`, in `slo`", AvailabilityObjective)
    parts += _section("`lake`", LakeSettings)
    parts += _section("`catalog` of kind `sqlite`, in `lake`", SqliteCatalogSettings)
    parts += _section("`catalog` of kind `postgres`, in `lake`", PostgresCatalogSettings)
    parts += _section("`catalog` of kind `rest`, in `lake`", RestCatalogSettings)
    parts += [*_section("A policy file", Policy), *_section("`decide`, in a policy file", Branch), _WHEN]
    parts += _section("`bands`, in a policy file", Band)
    parts += _section("`fallback`, in a policy file", FallbackBranch)
    return "\n".join(parts)


def _section(title: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"## {title}\n"
    if model.__doc__:
        yield inspect.cleandoc(model.__doc__) + "\n"
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in sorted(model.model_fields.items(), key=lambda item: item[0] != "kind"):
        yield f"| `{field.alias or name}` | {_value(field)} | {_default(field)} | {field.description} |"
    yield ""


def _value(field: FieldInfo) -> str:
    if _DURATION in field.metadata:
        return "duration"
    if _RECORD in field.metadata:
        return "`none` or `all` or list of texts"
    low = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    return _type(field.annotation) + (f", {low} or more" if low is not None else "")


def _type(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in {typing.Union, types.UnionType}:
        return " or ".join(dict.fromkeys(_type(each) for each in arguments if each is not type(None)))
    if origin is typing.Annotated and arguments[0] in _WORDS:
        return _type(arguments[0])
    if origin is list:
        return f"list of {_type(arguments[0])}s"
    if annotation is Any:
        return "text or mapping"
    return _WORDS.get(annotation, "mapping")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value in (None, PydanticUndefined, {}):
        return ""
    if _DURATION in field.metadata:
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


if __name__ == "__main__":
    sys.stdout.write(reference())
