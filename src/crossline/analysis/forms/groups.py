"""Conditions as rows: each a line, groups of them within each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crossline.analysis.forms.fields import FormSource
from crossline.analysis.forms.values import JOIN, JOINS, REMOVE, FormField, FormRow, act_name, new_name
from crossline.basics.conditions.tree import OPERATORS
from crossline.basics.texts.problems import Path

DEPTH_MAX = 6  # of groups within each other; deeper ones are left to the text
LEAF = ("field", "operator", "value")
_TITLES = {"all": "All of these", "any": "Any of these", "not": "None of what follows"}


def condition_rows(looked: FormSource, path: Path, columns: tuple[str, ...], depth: int = 0) -> tuple[FormRow, ...]:
    """The conditions at ``path``, which may not be there; and one more. ``columns``: the fields that they may name."""
    given = looked.value(path)
    if isinstance(given, list):
        found = [_item(looked, (*path, place), columns, depth) for place in range(len(given))]
        return (*found, _one_more(path, columns))
    if given is None:
        return (_one_more(path, columns),)
    return (_item(looked, path, columns, depth),)


def unshown(looked: FormSource, path: Path, depth: int = 0) -> Iterator[Path]:
    """What of the conditions at ``path`` the form leaves to the text."""
    given = looked.value(path)
    if given is None:
        return
    for each in (path,) if not isinstance(given, list) else ((*path, place) for place in range(len(given))):
        value = looked.value(each)
        if (below := _below(value, each, depth)) is not None:
            yield from unshown(looked, below, depth + 1)
        elif not _is_leaf(value):
            yield each


def _below(value: Any, path: Path, depth: int) -> Path | None:
    """The path of the conditions of a group; None: the form does not show it."""
    if depth >= DEPTH_MAX:
        return None
    if isinstance(value, list):
        return path
    if isinstance(value, dict) and len(value) == 1 and (join := next(iter(value))) in JOINS:
        return (*path, join)
    return None


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() <= set(LEAF)


def _item(looked: FormSource, path: Path, columns: tuple[str, ...], depth: int) -> FormRow:
    value, removes, place = looked.value(path), act_name(path, REMOVE), looked.place(path)
    below = _below(value, path, depth)
    if below is not None:
        join = str(below[-1]) if below != path else "all"
        rows = condition_rows(looked, below, columns, depth + 1)
        joins = looked.line(path), looked.place(below)
        field = FormField(act_name(path, JOIN), "of what follows", "choice", join, JOINS, "", *joins)
        return FormRow(_TITLES[join], (field,) if below != path else (), removes, rows=rows, at=place)
    if not _is_leaf(value):
        return FormRow(f"A condition that the text alone has, line {looked.line(path)}", (), removes, at=place)
    fields = (
        looked.shown((*path, "field"), "field", "text", columns),
        looked.shown((*path, "operator"), "operator", "choice", OPERATORS),
        looked.shown((*path, "value"), "value", "value"),
    )
    number = f" {path[-1] + 1}" if isinstance(path[-1], int) else ""
    return FormRow(f"Condition{number}", fields, removes, at=place)


def _one_more(path: Path, columns: tuple[str, ...]) -> FormRow:
    fields = (
        FormField(new_name(path, "field"), "field", "text", "", columns),
        FormField(new_name(path, "operator"), "operator", "choice", "==", OPERATORS),
        FormField(new_name(path, "value"), "value", "value", ""),
        FormField(new_name(path, JOIN), "in a new group", "choice", "", ("", *JOINS)),
    )
    return FormRow("One more condition", fields)
