"""Writes the reference of rules from their models.

``python -m tools.docs.rule_reference > docs/rule-reference.md``
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from crossline.basics.texts import fieldtypes
from crossline.basics.times import format_duration
from crossline.programs.registry import aggregates
from crossline.rules.base import NOT_YET, Rule
from crossline.rules.breaker import Breaker
from crossline.rules.figure import FigureFields
from crossline.rules.figure_tables import FigureTable, SharedFigure
from crossline.rules.registry import rule_types

_HEAD = """\
# Rules

Every field of a rule. This page is written from the code by `python -m tools.docs.rule_reference`.

A file holds one rule or a list of rules, in YAML or JSON. Unknown fields, wrong types and combinations that cannot be
are refused, all at once, each with its line and the nearest valid name. Plain `no`, `on` and `0742` are text. Durations
are written `200ms`, `45s`, `10 min`, `1h 30m`, `7d`.
"""

_CONDITIONS = """\
## Conditions

A list is AND; `all:`, `any:` and `not:` nest. A leaf is `{field, operator, value}`; a nested field is named with dots.

```yaml
conditions:
  - {field: amount_cents, operator: ">=", value: 50000}
  - any:
      - {field: location.country, operator: not_in, value: [NO, SE]}
      - {field: merchant_id, operator: in, value: {list: watched_merchants}}
      - not: {field: billing_country, operator: "==", value: {field: location.country}}
```

| operator | value | holds where the field |
|---|---|---|
| `==` `!=` | text, number, true or false, `{field: other}` | is, or is not, equal |
| `>` `>=` `<` `<=` | number, text, `{field: other}` | is in this order; text by code point |
| `in` `not_in` | a list of values, `{list: name}` | is, or is not, one of them |
| `between` | `[low, high]` | is between them, both included |
| `contains` | a value | text holds it; a list has it |
| `starts_with` `ends_with` | text | begins or ends so |
| `regex` | text | has a match anywhere, in RE2 syntax |
| `exists` `missing` | none | is there and not null, or is not |

A missing or null field satisfies only `missing`, `!=` and `not_in`. Text, numbers and true or false are never equal to
one another. A timestamp is compared as epoch milliseconds. Two fields of which one is an integer and the other a number
are compared as doubles.
"""

_FIGURES = """\
## Figures

A figure is one aggregate over a window of the records of a key: `{count: true, group_by: card_hash, window: 10m}`,
`{avg: amount_cents, group_by: account_id, window: 30d, include_current: false}`. It has exactly one of the aggregates.
The window of a record with time t reaches from t - `delay` - `window` to t - `delay`. Besides its own `conditions`, a
figure is of all records of the stream, not only of those that the rule's `conditions` let it judge.
"""

_SHARED = """\
### Shared figures

A figure may stand in a file of its own, beside the rules or in the folder that `figures:` of the pipeline names. Beside
the fields of a figure it has these:
"""

_TABLES = """\
```yaml
kind: figure
figure_id: card_tries
version: 1
source_topic: payments
description: payments tried with a card
count: true
group_by: card_hash
window: 10m
```

Rules name it in `figures`: `tries: {figure: card_tries}`, or `{figure: card_tries, version: 1}`.

### Tables of figures

`crossline figures` tells figures of every record. It takes shared figures, and files with these fields:
"""

_BREAKER = """\
## Breaker

`breaker: {alerts_max: 1000, per: 1m}`: a rule that raises more alerts at the records of one interval goes to shadow,
and the rule log reports it (`tripped`). See "A rule that floods" in [operations.md](operations.md).
"""

_FORMULAS = """\
## Formulas

`tries >= 6 and declines / tries > 0.5 and amount_cents > 3 * usual`: Python's expressions over fields, figures and
plain values.

- Values: integers, real numbers, `"text"`, `true`, `false`, and durations in milliseconds: `10m`, `1h30m`.
- `and or not`, comparisons (`0 < x <= 5`), `+ - * / // %`, `in ("NO", "SE")`, `not in`.
- `abs(x)`, `min(x, y, ...)`, `max(x, y, ...)`, `round(x)`, `round(x, digits)`, `log(x)`, `sqrt(x)`,
  `haversine_km(lat, lon, lat, lon)`, `hour(t)` and `weekday(t)` of a timestamp, with a time zone if it is not UTC:
  `hour(event_time, "Europe/Berlin")`; Monday is 0.
- `missing(x)` asks whether there is a value, `coalesce(x, y, ...)` takes the first that is there.

A missing value makes a comparison false (`!=` and `not in` too) and arithmetic missing. Integers are exact, `/` is
real. What has no real result is missing: a quotient by zero, a root or logarithm of what has none.
"""

_SENTENCES = """\
## Sentences

An alert carries a sentence. Without a `description` it is made from the rule, such as
`10 payments by account a1 in 60 s (line: 10)`. In a description these names may stand in braces:

- of a sequence: `{value}` and `{count}`, which are the records that took its steps, `{window}`, which is `within`,
  `{rule_id}`, and the fields of `group_by`;
- of a rule with a window: `{value}`, `{threshold}`, `{operator}`, `{window}`, `{count}`, `{rule_id}`, and the fields of
  `group_by`;
- of a formula: the same, and the figures and fields that it reads;
- of a rule on the record alone: `{rule_id}`, and any field of the stream.

Write `{{` and `}}` for braces.
"""

_WORDS: list[tuple[Any, str]] = [
    (fieldtypes.Names, "a name or a list of names"),
    (fieldtypes.Texts, "a list of texts"),
    (fieldtypes.OptionalRecord, "`none` `all` or a list of names"),
    (fieldtypes.Unit, "text"),
    (fieldtypes.OptionalDuration, "a duration"),
    (fieldtypes.OptionalSeconds, "a duration, or seconds"),
    (fieldtypes.OptionalInstant, "an instant, or epoch milliseconds"),
    (fieldtypes.OptionalNumber, "a number"),
    (fieldtypes.Duration, "a duration"),
    (fieldtypes.Number, "a number"),
    (fieldtypes.RuleId, "a name"),
]
_PLAIN: dict[Any, str] = {str: "text", int: "a whole number", bool: "`true` or `false`", Any: "a list of conditions"}
_PLAIN[dict[str, FigureFields]] = "names and their figures"
_PLAIN[list[dict[str, str]]] = "a list of cases"
_PLAIN[Breaker] = "`{alerts_max: …, per: …}`"
_PLAIN[float] = "a number"


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD, "## Every rule\n", *_table(Rule.model_fields), _BREAKER, *_table(Breaker.model_fields), _CONDITIONS]
    parts += [_FIGURES, *_table(FigureFields.model_fields)]
    envelope = {key: info for key, info in SharedFigure.model_fields.items() if key not in FigureFields.model_fields}
    envelope |= {key: SharedFigure.model_fields[key] for key in ("version", "source_topic")}
    parts += [_SHARED, *_table(envelope), _TABLES, *_table(FigureTable.model_fields), _FORMULAS, _SENTENCES]
    for name, cls in rule_types().items():
        own = {key: info for key, info in cls.model_fields.items() if key not in Rule.model_fields}
        parts += [f"## `{name}`\n", f"{_doc(cls)}\n"]
        parts += _table(own) if own else ["No fields of its own.\n"]
        for field, inner in _inner(own):
            parts += [f"### `{field}`\n", f"{_doc(inner)}\n", *_table(inner.model_fields)]
        parts += [f"```yaml\n{cls.example}```\n"]
    return "\n".join(parts).rstrip() + "\n"


def _inner(fields: dict[str, FieldInfo]) -> Iterable[tuple[str, type[BaseModel]]]:
    """The fields that have fields of their own, but for figures, which have a chapter."""
    for name, info in fields.items():
        yield from ((name, model) for model in _models(info.annotation) if model is not FigureFields)


def _written() -> Iterator[tuple[type[BaseModel], str]]:
    """How the parameters of aggregates are written."""
    for parameters in (each.parameters for each in aggregates().values()):
        if parameters is not None:
            yield from ((model, parameters.shown) for model in _models(parameters.written))


def _models(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from _models(each)


def _doc(cls: type[BaseModel]) -> str:
    return (cls.__doc__ or "").strip().replace("``", "`")


def _table(fields: dict[str, FieldInfo]) -> Iterable[str]:
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, info in fields.items():
        if info.description != NOT_YET:
            yield f"| `{info.alias or name}` | {_value(info)} | {_default(info)} | {info.description} |"
    yield ""


def _value(info: FieldInfo) -> str:
    for kind, words in _WORDS:
        validator = typing.get_args(kind)[1]
        if any(each is validator for each in info.metadata):
            return words
    return " ".join(_said(info.annotation))


def _said(annotation: Any) -> Iterator[str]:
    plain = _PLAIN | dict(_written())
    if annotation in plain:
        yield plain[annotation]
    elif typing.get_origin(annotation) is Literal:
        yield from (f"`{str(option).lower() if option is True else option}`" for option in typing.get_args(annotation))
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "its fields, below"
    elif typing.get_origin(annotation) is list:
        yield from (f"a list, each with {words}" for words in _said(typing.get_args(annotation)[0]))
    elif typing.get_args(annotation):
        for each in typing.get_args(annotation):
            if each is not type(None):
                yield from _said(each)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.default
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    is_duration = typing.get_args(fieldtypes.Duration)[1] in info.metadata
    return f"`{format_duration(value) if is_duration else value}`"


if __name__ == "__main__":
    sys.stdout.write(reference())
