"""The form of a rule as values: fields, rows of fields, sections, and what a change of type would mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from crossline.basics.texts.problems import Path

Kind = Literal["text", "long", "value", "names", "choice"]
SEPARATOR = "/"
MORE = "+"  # in a name: one that is not there yet
REMOVE, UP, DOWN, JOIN = "remove", "up", "down", "join"
JOINS = ("all", "any", "not")
_ACTS = frozenset({REMOVE, UP, DOWN, JOIN})
_DIGITS_MAX = 6


@dataclass(frozen=True, slots=True)
class FormField:
    """A form field. ``name``: its name in changes; ``value``: its text, empty if it is missing.

    ``kind``: ``value`` accepts a YAML value, ``names`` a list separated by commas. ``line``: its line in the text, 0 if
    it is missing. ``at``: its path in the notation of error messages.
    """

    name: str
    label: str
    kind: Kind
    value: str
    options: tuple[str, ...] = ()
    hint: str = ""
    line: int = 0
    at: str = ""


@dataclass(frozen=True, slots=True)
class FormRow:
    """A group of fields: a condition, a step, a figure; ``rows``: the nested groups.

    ``removes``, ``up``, ``down``: the names of the actions that remove and move it, or empty. ``at``: its path in the
    notation of error messages.
    """

    title: str
    fields: tuple[FormField, ...]
    removes: str = ""
    up: str = ""
    down: str = ""
    rows: tuple[FormRow, ...] = ()
    at: str = ""

    def more_of(self) -> str:
        """The name of what one more can be added to here; empty: nothing."""
        new = next((each.name for each in self.fields if MORE in each.name.split(SEPARATOR)), "")
        return list_of(new) if new else ""

    def is_new(self) -> bool:
        """Whether none of its fields has a value."""
        return bool(self.fields) and all(MORE in each.name.split(SEPARATOR) for each in self.fields)


@dataclass(frozen=True, slots=True)
class FormSection:
    """A part of the form."""

    title: str
    fields: tuple[FormField, ...] = ()
    rows: tuple[FormRow, ...] = ()


@dataclass(frozen=True, slots=True)
class TypeChange:
    """What another type means. ``goes``: what would go, each with its line; ``lacks``: what would have to be set."""

    rule_type: str
    goes: tuple[tuple[str, int], ...]
    lacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuleForm:
    """``left``: what only the text has, each with its line. ``why_none``: why there is no form at all, or empty."""

    sections: tuple[FormSection, ...] = ()
    left: tuple[tuple[str, int], ...] = ()
    types: tuple[TypeChange, ...] = ()
    why_none: str = ""

    def rows(self) -> Iterator[FormRow]:
        """All of them, those within others too, in their order."""
        waiting = [row for section in reversed(self.sections) for row in reversed(section.rows)]
        while waiting:
            yield (row := waiting.pop())
            waiting += reversed(row.rows)

    def fields(self) -> Iterator[FormField]:
        """All of them, in their order within each section."""
        for section in self.sections:
            yield from section.fields
        for row in self.rows():
            yield from row.fields

    def offers(self) -> list[tuple[str, ...]]:
        """What is offered for fields that take other values too, each list once."""
        return list(dict.fromkeys(each.options for each in self.fields() if each.options and each.kind != "choice"))

    def acts(self) -> set[str]:
        """The names of the actions."""
        return {name for row in self.rows() for name in (row.removes, row.up, row.down) if name}


def name_of(path: Path) -> str:
    """The name of the value at ``path`` in changes; special characters of keys are escaped.

    >>> name_of(("figures", "a/b", "of")), name_of(("conditions", 0))
    ('figures/a~1b/of', 'conditions/0')
    """
    written = (str(step).replace("~", "~0").replace(SEPARATOR, "~1") for step in path)
    return SEPARATOR.join("~2" if step == MORE else f"~3{step}" if step in _ACTS else step for step in written)


def act_name(path: Path, act: str) -> str:
    """The name of an action on the value at ``path``: remove, move or join.

    >>> act_name(("steps", 0), "up")
    'steps/0/up'
    """
    return SEPARATOR.join((name_of(path), act))


def new_name(path: Path, key: str) -> str:
    """The name of a value of a new entry in the list or mapping at ``path``.

    >>> new_name(("conditions",), "field")
    'conditions/+/field'
    """
    return SEPARATOR.join((name_of(path), MORE, key))


def list_of(name: str) -> str:
    """What the name of a value that is not there yet adds to.

    >>> list_of("steps/0/conditions/+/field")
    'steps/0/conditions'
    """
    parts = name.split(SEPARATOR)
    return SEPARATOR.join(parts[: parts.index(MORE)])


def path_of(name: str, data: Any) -> Path:
    """The path that a name is of: what is a number in a list, and a key in a mapping.

    >>> path_of("a/0/b~1c", {"a": [{}]}), path_of("a/0", {"a": {}})
    (('a', 0, 'b/c'), ('a', '0'))
    """
    found: list[str | int] = []
    for part in name.split(SEPARATOR):
        listed = isinstance(data, list) and part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX
        plain = part.replace("~3", "").replace("~2", MORE).replace("~1", SEPARATOR).replace("~0", "~")
        step: str | int = int(part) if listed else plain
        found.append(step)
        data = at(data, (step,))
    return tuple(found)


def at(data: Any, path: Path) -> Any:
    """The value at ``path``; None if nothing is."""
    for step in path:
        if isinstance(data, dict):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data
