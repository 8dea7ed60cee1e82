"""Writes the reference of rules from their models.

``python -m crossline.core.rules.reference > docs/rule-reference.md``
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from pydantic.fields import FieldInfo

from crossline.core.basics.times import format_duration
from crossline.core.rules.base import Rule
from crossline.core.rules.registry import rule_types
from crossline.core.texts import fieldtypes

_HEAD = """\
# Rules

Every field of a rule. This page is written from the code by `python -m crossline.core.rules.reference`.

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

_SENTENCES = """\
## Sentences

An alert carries a sentence. Without a `description` it is made from the rule, such as
`10 payments by account a1 in 60 s (line: 10)`. In a description these names may stand in braces:

- of a rule with a window: `{value}`, `{threshold}`, `{operator}`, `{window}`, `{count}`, `{rule_id}`, and the fields of
  `group_by`;
- of a rule on the record alone: `{rule_id}`, and any field of the stream.

Write `{{` and `}}` for braces.
"""

_WORDS: list[tuple[Any, str]] = [
    (fieldtypes.Names, "a name or a list of names"),
    (fieldtypes.Texts, "a list of texts"),
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
_UNFINISHED = "resolution"


def reference() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD, "## Every rule\n", *_table(Rule.model_fields), _CONDITIONS, _SENTENCES]
    for name, cls in rule_types().items():
        own = {key: info for key, info in cls.model_fields.items() if key not in Rule.model_fields}
        parts += [f"## `{name}`\n", f"{_doc(cls)}\n"]
        parts += _table(own) if own else ["No fields of its own.\n"]
        parts += [f"```yaml\n{cls.example}```\n"]
    return "\n".join(parts).rstrip() + "\n"


def _doc(cls: type[Rule]) -> str:
    return (cls.__doc__ or "").strip().replace("``", "`")


def _table(fields: dict[str, FieldInfo]) -> Iterable[str]:
    yield "| field | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, info in fields.items():
        if name != _UNFINISHED:
            yield f"| `{name}` | {_value(info)} | {_default(info)} | {info.description} |"
    yield ""


def _value(info: FieldInfo) -> str:
    for kind, words in _WORDS:
        validator = typing.get_args(kind)[1]
        if any(each is validator for each in info.metadata):
            return words
    return " ".join(_said(info.annotation))


def _said(annotation: Any) -> Iterator[str]:
    if typing.get_origin(annotation) is Literal:
        yield from (f"`{option}`" for option in typing.get_args(annotation))
    elif typing.get_args(annotation):
        for each in typing.get_args(annotation):
            if each is not type(None):
                yield from _said(each)
    else:
        yield _PLAIN[annotation]


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
