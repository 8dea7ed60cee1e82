"""Changes of a form, written into the text of its rule: only the lines that they concern are touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crossline.analysis.forms.fields import rule_in
from crossline.analysis.forms.form_reader import form_of
from crossline.analysis.forms.formulas import line_spans
from crossline.analysis.forms.parts import function_of
from crossline.analysis.forms.type_changes import TYPE, goes_with
from crossline.analysis.forms.values import (
    DOWN,
    JOIN,
    JOINS,
    MORE,
    REMOVE,
    SEPARATOR,
    UP,
    FormField,
    at,
    list_of,
    new_name,
    path_of,
)
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Path, path_text
from crossline.basics.texts.yamledit import (
    CannotEditError,
    added,
    appended,
    removed,
    renamed,
    replaced,
    source_of,
    swapped,
    typed,
    wrapped,
)
from crossline.basics.texts.yamltext import load_yaml
from crossline.programs.registry import declared

CHANGES_MAX = 100
# A new key is inserted after the last of its predecessors in this order.
ORDER = (
    *("rule_id", "version", "rule_type", "status", "source_topic", "severity", "score", "action", "hold", "owner"),
    *("conditions", "entity", "group_by", "join_key", "aggregation_type", "aggregation_field", "operator"),
    *("aggregation_threshold", "after", "expect", "steps", "within", "any_of", "window", "figures", "when", "value"),
    *("description", "cooldown", "emit"),
)
_PART = ("name", "times", "source_topic", "field", "operator", "value", "group_by", "window", "conditions")


def with_form(text: str, given: Mapping[str, str], streams: Mapping[str, StreamSpec]) -> str:
    """Apply the values of a form to the text of a rule. Unknown names are ignored.

    Values are set and added first. Then groups change their operator, one part is moved or some are removed. Last the
    type is changed, which removes the fields that the new type does not have.

    Args:
        text: A text with one rule.
        given: The typed values by the names of the form's fields, and the actions that move or remove.
        streams: The streams whose fields the form offers.

    Raises CannotEditError if the layout of the text needs an edit by hand, UsageError if there are too many changes.
    """
    form = form_of(text, streams)
    known = {field.name: field for field in form.fields()}
    acts = sorted(name for name in form.acts() if given.get(name))
    differs = {name: value for name, value in given.items() if name in known and not _same(known[name], value)}
    if not differs and not acts:
        return text
    if len(differs) + len(acts) > CHANGES_MAX:
        found = f"{len(differs) + len(acts):,} changes at once"
        raise UsageError(f"found {found}; expected at most {CHANGES_MAX}, or the change in the text itself")
    writer = _Writer(text, rule_in(text)[1], known, given)
    writer.change(differs)
    writer.join(differs)
    writer.act(acts)
    if (rule_type := differs.get(TYPE, "").strip()) and TYPE in known:
        writer.turn(rule_type)
    return writer.text


def _same(field: FormField, sent: str) -> bool:
    """Whether a browser sends what was shown: it ends lines otherwise, and joins them in a field of one line."""
    one, other = field.value, sent
    if field.kind == "long":
        one, other = ("\n".join(each.splitlines()) for each in (one, other))
    return one.strip() == other.strip()


def with_line(text: str, path: Path, number: int, value: str) -> str:
    """``text`` with another number in the formula at ``path``; ``number``: which of ``lines_in``, from 0."""
    when = at(load_yaml(text, "text").data, path)
    spans = line_spans(when) if isinstance(when, str) else []
    if number >= len(spans):
        raise CannotEditError(f"found no number {number + 1} in the formula; expected one of {len(spans)}")
    start, end = spans[number]
    new = f"{when[:start]}{value}{when[end:]}"
    first, last = source_of(text, path)
    place = first + _place(text[first:last], sum(1 for each in when[:start] if not each.isspace()))
    after = text[:place] + value + text[place + end - start :]
    if text[place : place + end - start] == when[start:end]:
        try:
            if at(load_yaml(after, "text").data, path) == new:
                return after
        except UsageError:
            pass
    return replaced(text, path, new)


def _place(raw: str, letters: int) -> int:
    """Where in a value as it is written so many letters, without spaces, are over."""
    place = raw.index("\n") + 1 if raw[:1] in {"|", ">"} else 1 if raw[:1] in {'"', "'"} else 0
    while place < len(raw) and (letters or raw[place].isspace()):
        letters -= not raw[place].isspace()
        place += 1
    return place


class _Writer:
    """The text, as change after change is written into it. ``given``: all that was sent."""

    def __init__(self, text: str, base: Path, known: Mapping[str, FormField], given: Mapping[str, str]) -> None:
        self.text = text
        self.base = base
        self.known = known
        self.given = given
        self.first = self._data()
        self.joined: dict[Path, Path] = {}

    def change(self, differs: Mapping[str, str]) -> None:
        """Apply changes of present values first, then additions."""
        more = dict.fromkeys(list_of(name) for name in differs if MORE in name.split(SEPARATOR))
        for name, value in differs.items():
            path = path_of(name, self.first)
            if MORE in name.split(SEPARATOR) or name.endswith(SEPARATOR + JOIN) or name == TYPE:
                continue
            if path[0] == "line":
                self.text = with_line(self.text, (*self.base, "when"), int(path[1]), value.strip())
            elif path[0] == "figures" and len(path) == 3 and path[-1] in {"function", "of"}:
                self._count(path[:-1], name.rpartition(SEPARATOR)[0])
            else:
                self._set(path, self._value(name, value.strip()))
        for name in more:
            self._add(name)

    def join(self, differs: Mapping[str, str]) -> None:
        """Groups are joined otherwise, the innermost first."""
        names = [name for name in differs if name.endswith(SEPARATOR + JOIN) and MORE not in name.split(SEPARATOR)]
        for path, name in sorted(((path_of(each, self.first), each) for each in names), key=lambda each: -len(each[0])):
            self._join(path[:-1], self._given(name))

    def act(self, acts: list[str]) -> None:
        """One part is moved, or some are removed."""
        paths = [self._now(path_of(name, self.first)) for name in acts]
        moves = [path for path in paths if path[-1] in {UP, DOWN}]
        if moves and len(paths) > 1:
            raise UsageError(f"found {len(paths)} parts to move or to remove; expected one, where one is moved")
        for *parent, place, way in moves:
            self._do(swapped, (*parent, int(place) - (way == UP)))
        gone = {path[:-1] for path in paths if path[-1] == REMOVE}
        whole = [path for path in gone if not any(path[:length] in gone for length in range(1, len(path)))]
        for path in sorted(whole, key=lambda each: [(isinstance(step, str), step) for step in each], reverse=True):
            self._take_away(path)

    def turn(self, rule_type: str) -> None:
        """Another type, and without what it cannot have."""
        for key in goes_with(self._data(), rule_type):
            self._do(removed, (key,))
        self._set((TYPE,), rule_type)

    def _do(self, edit: Callable[..., str], path: Path, *more: Any) -> None:
        self.text = edit(self.text, (*self.base, *path), *more)

    def _data(self, path: Path = ()) -> Any:
        return at(load_yaml(self.text, "text").data, (*self.base, *path))

    def _take_away(self, path: Path) -> None:
        """Remove the value at ``path``, and its parents that become empty."""
        while len(path) > 1 and len(self._data(path[:-1]) or ()) == 1:
            path = path[:-1]
        self._do(removed, path)

    def _value(self, name: str, text: str) -> Any:
        field = self.known[name]
        if not text:
            return None
        if field.kind == "names" and not text.startswith(("[", "{")):
            names = [each for each in text.replace(",", " ").split() if each]
            return names[0] if len(names) == 1 else names
        if field.kind in {"value", "names"} or field.options == ("true", "false"):
            return typed(text)
        return text

    def _set(self, path: Path, value: Any) -> None:
        there = path[-1] in (self._data(path[:-1]) or ())
        if value is not None:
            self._do(replaced, path, value) if there else self._put(path, value)
        elif there:
            self._take_away(path)

    def _put(self, path: Path, value: Any) -> None:
        """A key that is not there yet, with the mappings that hold it."""
        *above, key = path
        parent = self._data(tuple(above))
        if parent is None:
            self._put(tuple(above), {key: value})
        elif not parent:
            self._do(replaced, tuple(above), {key: value})
        else:
            order = _PART if above else ORDER
            self._do(added, tuple(above), key, value, order[: order.index(str(key))] if key in order else ())

    def _append(self, path: Path, item: Any) -> None:
        """One more in a list that may not be there."""
        now = self._data(path)
        if now is None and path[-1] in (self._data(path[:-1]) or ()):
            self._do(replaced, path, [item])
        elif now is None:
            self._put(path, [item])
        else:
            self._do(appended, path, item)

    def _count(self, path: Path, name: str) -> None:
        """What a figure counts, and of which field."""
        figure = self._data(path)
        now, of = (self._given(f"{name}{SEPARATOR}{each}") for each in ("function", "of"))
        before = function_of(figure) or now
        if now != before:
            self._do(renamed, (*path, before), now)
        value = True if declared(now).of_records else of
        if self._data((*path, now)) != value:
            self._do(replaced, (*path, now), value)

    def _given(self, name: str) -> str:
        return self.given.get(name, self.known[name].value).strip()

    def _add(self, name: str) -> None:
        """One more of the list or mapping of this name, where anything of it was typed."""
        path = path_of(name, self.first)
        prefix = new_name(path, "")
        typed_in = {each.removeprefix(prefix): each for each in self.known if each.startswith(prefix)}
        values = {key: self._value(each, self._given(each)) for key, each in typed_in.items()}
        if not any(self._given(each) != self.known[each].value for key, each in typed_in.items() if key != JOIN):
            return
        item = {key: value for key, value in values.items() if value is not None and key != JOIN}
        if "operator" in values:
            join = self._given(typed_in[JOIN])
            self._append(path, {join: item if join == "not" else [item]} if join else item)
        elif path == ("figures",):
            self._put(self._unnamed(path, item), self._figure(item))
        elif "value" in values:
            self._add_named(path, item)
        else:
            self._append(path, item)

    def _add_named(self, path: Path, item: Mapping[str, Any]) -> None:
        """A value under a name: of a mapping, or of a case that is not there yet."""
        now = self._data(path)
        if isinstance(now, list) or (now is None and path == ("any_of",)):
            self._append(path, {str(item.get("name", "")): item.get("value", "")})
        else:
            self._put(self._unnamed(path, item), item.get("value", ""))

    def _unnamed(self, path: Path, item: Mapping[str, Any]) -> Path:
        """The path of a new name."""
        name = str(item.get("name", ""))
        if name in (self._data(path) or ()):
            raise UsageError(f"found {name} a second time in {path_text(path)}; expected a name that is not there yet")
        return (*path, name)

    def _figure(self, item: Mapping[str, Any]) -> dict[str, Any]:
        function, rest = str(item["function"]), ("group_by", "window")
        counted: Any = True if declared(function).of_records else item.get("of", "")
        return {function: counted, **{key: item[key] for key in rest if key in item}}

    def _join(self, path: Path, after: str) -> None:
        """A group joined otherwise; what it was called before, and is now, is kept in mind."""
        held = self._data(path)
        before = next(iter(held))
        if after not in JOINS:
            raise UsageError(f"found {after!r}; expected {', '.join(JOINS)}")
        self._do(renamed, (*path, before), after)
        self.joined[*path, before] = (*path, after)
        if not isinstance(held[before], list) and after != "not":
            self._do(wrapped, (*path, after))
            self.joined[*path, before] = (*path, after, 0)

    def _now(self, path: Path) -> Path:
        """The present path of the value that was at ``path`` before groups changed their operator."""
        for before in sorted(self.joined, key=len, reverse=True):
            if path[: len(before)] == before:
                path = (*self.joined[before], *path[len(before) :])
        return path
