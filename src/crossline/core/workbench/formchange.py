"""Changes of a form, written into the text of its rule: only the lines that they concern are touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from crossline.core.figures.registry import declared
from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.problems import Path
from crossline.core.texts.yamledit import (
    CannotEditError,
    added,
    appended,
    removed,
    renamed,
    replaced,
    source_of,
    typed,
)
from crossline.core.texts.yamltext import load_yaml
from crossline.core.workbench.form import MORE, SEPARATOR, FormField, form_of, line_spans, rule_base

# A key that is not there yet comes after the last of these that stand before it here.
ORDER = (
    *("rule_id", "version", "rule_type", "status", "source_topic", "severity", "score", "action", "hold", "owner"),
    *("conditions", "entity", "group_by", "join_key", "aggregation_type", "aggregation_field", "operator"),
    *("aggregation_threshold", "window", "figures", "when", "value", "description", "cooldown", "emit"),
)
_LEAF, _FIGURE = ("field", "operator", "value"), ("group_by", "window")


def with_form(text: str, given: Mapping[str, str], streams: Mapping[str, StreamSpec]) -> str:
    """``text`` with all of ``given`` that differs from its form; names that the form does not have are left out.

    Args:
        text: A text with one rule.
        given: Values as they were typed, by the names of the form's fields; and what is taken away.
        streams: Whose fields the form offers.

    Raises CannotEditError where the layout of the text is such that a person has to do it.
    """
    form = form_of(text, streams)
    known = {field.name: field for field in form.fields()}
    removes = {row.removes for section in form.sections for row in section.rows if row.removes}
    differs = {
        name: value.strip()
        for name, value in given.items()
        if name in known and known[name].kind != "fixed" and value.strip() != known[name].value.strip()
    }
    gone = sorted((name for name in given if name in removes and given[name]), reverse=True)
    if not differs and not gone:
        return text
    writer = _Writer(text, rule_base(text), known)
    writer.change(differs, given)
    for name in gone:
        writer.take_away(_path(name)[:-1])
    return writer.text


def with_line(text: str, path: Path, number: int, value: str) -> str:
    """``text`` with another number in the formula at ``path``; ``number``: which of ``lines_in``, from 0."""
    when = _at(load_yaml(text, "text").data, path)
    spans = line_spans(when) if isinstance(when, str) else []
    if number >= len(spans):
        raise CannotEditError(f"found no number {number + 1} in the formula; expected one of {len(spans)}")
    start, end = spans[number]
    new = f"{when[:start]}{value}{when[end:]}"
    first, last = source_of(text, path)
    at = _place(text[first:last], sum(1 for each in when[:start] if not each.isspace()))
    after = text[: first + at] + value + text[first + at + end - start :]
    if text[first + at : first + at + end - start] == when[start:end]:
        try:
            if _at(load_yaml(after, "text").data, path) == new:
                return after
        except (ValueError, KeyError, TypeError, IndexError):
            pass
    return replaced(text, path, new)


def _place(raw: str, letters: int) -> int:
    """Where in a value as it is written so many letters, without spaces, are over."""
    place = raw.index("\n") + 1 if raw[:1] in {"|", ">"} else 1 if raw[:1] in {'"', "'"} else 0
    while place < len(raw) and (letters or raw[place].isspace()):
        letters -= not raw[place].isspace()
        place += 1
    return place


@dataclass(slots=True)
class _Writer:
    """The text, as change after change is written into it."""

    text: str
    base: Path
    known: Mapping[str, FormField]

    def change(self, differs: Mapping[str, str], given: Mapping[str, str]) -> None:
        """What is there first, then what is new."""
        for name, value in differs.items():
            path = _path(name)
            if MORE in path:
                continue
            if path[0] == "line":
                self.text = with_line(self.text, (*self.base, "when"), int(path[1]), value)
            elif path[0] == "figures" and path[-1] in {"function", "of"}:
                self._count(path[:-1], given)
            else:
                self._set(path, self._value(name, value))
        for name in differs:
            if name.endswith(f"{MORE}{SEPARATOR}field") and given[name].strip():
                self._add_condition(_path(name)[:-2], given)
        if given.get(f"figures{SEPARATOR}{MORE}{SEPARATOR}name", "").strip():
            self._add_figure(given)

    def take_away(self, path: Path) -> None:
        """A condition, or a figure; with the last of them all that held them."""
        whole = _at(self._data(), path[:-1])
        self._do(removed, path[:-1] if len(whole) == 1 else path)

    def _do(self, edit: Callable[..., str], path: Path, *more: Any) -> None:
        self.text = edit(self.text, (*self.base, *path), *more)

    def _data(self) -> Any:
        return _at(load_yaml(self.text, "text").data, self.base)

    def _value(self, name: str, text: str) -> Any:
        field = self.known[name]
        if not text:
            return None
        if field.kind == "names":
            names = [each.strip() for each in text.replace(" ", ",").split(",") if each.strip()]
            return names[0] if len(names) == 1 else names
        if field.kind == "value" or field.options == ("true", "false"):
            return typed(text)
        return text

    def _set(self, path: Path, value: Any) -> None:
        *parent, key = path
        there = key in _at(self._data(), tuple(parent))
        if value is None:
            if there:
                self._do(removed, path)
        elif there:
            self._do(replaced, path, value)
        else:
            order = _LEAF if "conditions" in parent else _FIGURE if parent else ORDER
            before = order[: order.index(str(key))] if key in order else order
            self._do(added, tuple(parent), key, value, before if parent or key in order else ())

    def _count(self, path: Path, given: Mapping[str, str]) -> None:
        """What a figure counts, and of which field."""
        figure = _at(self._data(), path)
        now, of = (self._given((*path, each), given) for each in ("function", "of"))
        before = next(each for each in self.known[_name((*path, "function"))].options if each in figure)
        if now != before:
            self._do(renamed, (*path, before), now)
        value = True if declared(now).of_records else of
        if _at(self._data(), (*path, now)) != value:
            self._do(replaced, (*path, now), value)

    def _given(self, path: Path, given: Mapping[str, str]) -> str:
        name = _name(path)
        return given.get(name, self.known[name].value).strip()

    def _add_condition(self, path: Path, given: Mapping[str, str]) -> None:
        new = (*path, MORE)
        value = given.get(_name((*new, "value")), "").strip()
        item = {name: self._given((*new, name), given) for name in ("field", "operator")}
        leaf = {**item, "value": typed(value)} if value else item
        if path[-1] in _at(self._data(), path[:-1]):
            self._do(appended, path, leaf)
        else:
            self._do(added, path[:-1], path[-1], [leaf], ORDER[: ORDER.index("conditions")] if len(path) == 1 else ())

    def _add_figure(self, given: Mapping[str, str]) -> None:
        new = ("figures", MORE)
        name, function, of = (self._given((*new, each), given) for each in ("name", "function", "of"))
        figure: dict[str, Any] = {function: True if declared(function).of_records else of}
        for each in _FIGURE:
            value = self._value(_name((*new, each)), self._given((*new, each), given))
            figure |= {} if value is None else {each: value}
        self._do(added, ("figures",), name, figure)


def _path(name: str) -> Path:
    return tuple(int(each) if each.isdigit() else each for each in name.split(SEPARATOR))


def _name(path: Path) -> str:
    return SEPARATOR.join(map(str, path))


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data
