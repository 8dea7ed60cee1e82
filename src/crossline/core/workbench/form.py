"""A rule's text as a form: which of its values a person can set without writing YAML, and what is left to the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from crossline.core.basics.errors import UsageError
from crossline.core.conditions.tree import OPERATORS
from crossline.core.rules.base import Rule
from crossline.core.rules.figure import OF_A_FIELD, OF_RECORDS, FigureFields
from crossline.core.rules.registry import rule_class
from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.problems import Path
from crossline.core.texts.yamledit import CannotEditError, source_of
from crossline.core.texts.yamltext import Document, load_yaml

Kind = Literal["text", "long", "value", "names", "choice", "fixed"]
SEPARATOR = "/"
MORE = "+"  # in a name: one that is not there yet
REMOVE = "remove"
FUNCTIONS = (*OF_RECORDS, *OF_A_FIELD)
FORM_BYTES_MAX = 64 * 1024
_IS = ("rule_id", "version", "rule_type", "status", "description", "owner")
_READS = ("source_topic", "group_by", "entity", "join_key")
_MEANS = ("severity", "score", "action", "hold", "cooldown", "emit")
_FIGURE = ("group_by", "window", "delay", "source_topic", "bounds", "include_current", "resolution")
_LINE = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>>=|<=|==|!=|>|<)\s*(?P<number>-?\d[\d_.]*(?:e[+-]?\d+)?[a-z]*)""",
    re.VERBOSE,
)
_SENTENCE = re.compile(r"(?<=[a-z\d)])[.;:](?:\s|$)")
_JOINS = re.compile(r"\b(?:and|or|not)\b|[(),]")


@dataclass(frozen=True, slots=True)
class FormField:
    """One value. ``name``: what it is called in changes; ``value``: as a person writes it, empty: it is not there.

    ``kind``: ``value`` takes what YAML takes, ``names`` are parted by commas, ``fixed`` is only shown. ``line``: where
    it stands, 0: nowhere yet.
    """

    name: str
    label: str
    kind: Kind
    value: str
    options: tuple[str, ...] = ()
    hint: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class FormRow:
    """Fields that belong together: a condition, a figure. ``removes``: the name of what takes it away, or empty."""

    title: str
    fields: tuple[FormField, ...]
    removes: str = ""


@dataclass(frozen=True, slots=True)
class FormSection:
    """A part of the form."""

    title: str
    fields: tuple[FormField, ...] = ()
    rows: tuple[FormRow, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleForm:
    """``left``: what only the text has, each with its line. ``why_none``: why there is no form at all, or empty."""

    sections: tuple[FormSection, ...] = ()
    left: tuple[tuple[str, int], ...] = ()
    why_none: str = ""

    def fields(self) -> Iterator[FormField]:
        """All of them, in their order."""
        for section in self.sections:
            yield from section.fields
            for row in section.rows:
                yield from row.fields


def form_of(text: str, streams: Mapping[str, StreamSpec]) -> RuleForm:
    """The form of a text with one rule. ``streams``: whose fields are offered."""
    try:
        document, base = _rule_in(text)
    except UsageError as error:
        return RuleForm(why_none=str(error))
    return _Reader(document, base, streams).form()


def rule_base(text: str) -> Path:
    """Where the one rule of a text stands in it. Raises UsageError where there is not one."""
    return _rule_in(text)[1]


def _rule_in(text: str) -> tuple[Document, Path]:
    if len(text.encode(errors="replace")) > FORM_BYTES_MAX:
        raise UsageError(f"the text is longer than {FORM_BYTES_MAX:,} bytes, which the form does not show")
    document = load_yaml(text, "text")
    rules = document.data if isinstance(document.data, list) else [document.data]
    if len(rules) != 1 or not isinstance(rules[0], dict) or not rules[0]:
        raise UsageError(f"the text has {len(rules)} values; the form shows one rule, which is a mapping")
    return document, (0,) if isinstance(document.data, list) else ()


@cache
def written_fields(rule_type: object) -> Mapping[str, Any]:
    """The fields of a rule type; of an unknown one those that all have."""
    return (rule_class(rule_type) or Rule).model_fields


def kind_of(annotation: Any) -> tuple[Kind, tuple[str, ...]] | None:
    """How a field of that type is set, and what it may be; None: in the text alone."""
    several = get_origin(annotation) in {Union, UnionType}
    parts = [each for each in get_args(annotation) if each is not NoneType] if several else [annotation]
    (part, *others) = parts
    if get_origin(part) is Literal and not others:
        options = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in get_args(part))
        return "choice", options
    if part is bool:
        return "choice", ("true", "false")
    if parts == [str]:
        return "text", ()
    if get_origin(part) is tuple and not others:
        return "names", ()
    return ("value", ()) if set(parts) <= {int, float} else None


@dataclass(frozen=True, slots=True)
class _Reader:
    document: Document
    base: Path
    streams: Mapping[str, StreamSpec]

    @property
    def rule(self) -> dict[str, Any]:
        data: Any = self.document.data
        found: dict[str, Any] = data[self.base[0]] if self.base else data
        return found

    def form(self) -> RuleForm:
        known = written_fields(self.rule.get("rule_type"))
        own = [
            name
            for name in known
            if name not in Rule.model_fields and name not in {*_READS, *_MEANS, "figures", "when"}
        ]
        more = [
            name
            for name in Rule.model_fields
            if name not in {*_IS, *_READS, *_MEANS, "conditions"} and name in self.rule
        ]
        seen: set[str] = {"conditions", "figures", "when"} & known.keys()
        sections = [
            self._section("What it is", _IS, known, seen),
            self._section("What it reads", _READS, known, seen, self._conditions(("conditions",), known)),
            self._section("What it counts", (), known, seen, self._figures(known)),
            self._section("When it fires", [*(["when"] if "when" in known else []), *own], known, seen),
            self._section("What a hit means", _MEANS, known, seen),
            self._section("More of the text", more, known, seen),
        ]
        left = [(name, self._line((name,))) for name in self.rule if name not in seen]
        left += self._unshown(known)
        return RuleForm(tuple(each for each in sections if each.fields or each.rows), tuple(left))

    def _section(
        self,
        title: str,
        names: Sequence[str],
        known: Mapping[str, Any],
        seen: set[str],
        rows: Sequence[FormRow] = (),
    ) -> FormSection:
        found: list[FormField] = []
        for name in names:
            if name == "when":
                found += self._when()
            elif name in known and (field := self._field((name,), known[name])) is not None:
                found.append(field)
                seen.add(name)
        return FormSection(title, tuple(found), tuple(rows))

    def _field(self, path: Path, info: Any) -> FormField | None:
        name, kind = str(path[-1]), kind_of(info.annotation)
        value = self._at(path)
        if kind is None or isinstance(value, dict) or (isinstance(value, list) and kind[0] != "names"):
            return None
        hint = _SENTENCE.split((info.description or "").replace("`", ""))[0]
        shown: Kind = "fixed" if name == "rule_type" else "long" if name == "description" else kind[0]
        options = self._options(name, path) or kind[1]
        if shown == "choice" and self._said(path) and self._said(path) not in options:
            options = (*options, self._said(path))
        said = ", ".join(map(str, value)) if isinstance(value, list) else self._said(path)
        return FormField(_name(path), name.replace("_", " "), shown, said, options, hint, self._line(path))

    def _options(self, name: str, path: Path) -> tuple[str, ...]:
        if name == "source_topic":
            return tuple(self.streams)
        if name in {"group_by", "entity", "join_key", "field", "of"} or name.endswith("_field"):
            return self._columns(self._at((*path[:-1], "source_topic")))
        return ()

    def _columns(self, stream: Any = None) -> tuple[str, ...]:
        name = stream if isinstance(stream, str) else self.rule.get("source_topic")
        spec = self.streams.get(name) if isinstance(name, str) else None
        return () if spec is None else tuple(spec.columns)

    def _when(self) -> Iterator[FormField]:
        """The formula, and each number that something in it is held against."""
        text = self._at(("when",))
        yield FormField(
            "when", "when", "long", str(text or ""), (), "The rule fires where this holds.", self._line(("when",))
        )
        for number, (label, found) in enumerate(lines_in(text) if isinstance(text, str) else ()):
            yield FormField(f"line{SEPARATOR}{number}", label, "value", found, (), "", self._line(("when",)))

    def _conditions(self, path: Path, known: Mapping[str, Any]) -> tuple[FormRow, ...]:
        if "conditions" not in known or not self._plain_conditions(path):
            return ()
        given = self._at(path) or []
        rows = [self._condition((*path, place), each) for place, each in enumerate(given)]
        return (*rows, self._condition((*path, MORE), {}))

    def _plain_conditions(self, path: Path) -> bool:
        given = self._at(path)
        leaf = {"field", "operator", "value"}
        return given is None or (
            isinstance(given, list) and all(isinstance(each, dict) and each.keys() <= leaf for each in given)
        )

    def _condition(self, path: Path, leaf: Mapping[str, Any]) -> FormRow:
        new = path[-1] == MORE
        columns = self._columns(self._at((*path[:-2], "source_topic")))
        fields = (
            FormField(
                _name((*path, "field")), "field", "text", str(leaf.get("field", "")), columns, "", self._line(path)
            ),
            FormField(_name((*path, "operator")), "operator", "choice", str(leaf.get("operator", "==")), OPERATORS),
            FormField(_name((*path, "value")), "value", "value", "" if new else self._said((*path, "value"))),
        )
        return FormRow("One more condition" if new else "Condition", fields, "" if new else _name((*path, REMOVE)))

    def _figures(self, known: Mapping[str, Any]) -> tuple[FormRow, ...]:
        given = self._at(("figures",))
        if "figures" not in known or not isinstance(given, dict):
            return ()
        rows = [row for name, each in given.items() for row in self._figure(name, each)]
        new = ("figures", MORE)
        fields = (
            FormField(_name((*new, "name")), "name", "text", ""),
            FormField(_name((*new, "function")), "function", "choice", "count", FUNCTIONS),
            FormField(_name((*new, "of")), "of", "text", "", self._columns()),
            FormField(_name((*new, "group_by")), "group by", "names", "", self._columns()),
            FormField(_name((*new, "window")), "window", "text", ""),
        )
        return (*rows, FormRow("One more figure", fields))

    def _figure(self, name: str, figure: Any) -> Iterator[FormRow]:
        path = ("figures", name)
        function = next((each for each in FUNCTIONS if isinstance(figure, dict) and each in figure), None)
        if function is None:
            return  # of another kind: the text has it
        of = "" if function in OF_RECORDS else self._said((*path, function))
        fields = [
            FormField(_name((*path, "function")), "function", "choice", function, FUNCTIONS, "", self._line(path)),
            FormField(_name((*path, "of")), "of", "text", of, self._columns(figure.get("source_topic"))),
        ]
        known = written_figure()
        for each in _FIGURE:
            field = (
                self._field((*path, each), known[each]) if each in figure or each in {"group_by", "window"} else None
            )
            fields += [] if field is None else [field]
        yield FormRow(f"Figure {name}", tuple(fields), _name((*path, REMOVE)))
        for row in self._conditions((*path, "conditions"), known):
            yield FormRow(f"{row.title} of {name}", row.fields, row.removes)

    def _unshown(self, known: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """What stands in parts of which the form shows others."""
        if "conditions" in known and not self._plain_conditions(("conditions",)):
            yield "conditions", self._line(("conditions",))
        figures = self._at(("figures",))
        for name, each in figures.items() if isinstance(figures, dict) and "figures" in known else ():
            path = ("figures", name)
            if not isinstance(each, dict) or not any(function in each for function in FUNCTIONS):
                yield f"figure {name}", self._line(path)
                continue
            shown = {*FUNCTIONS, *_FIGURE}
            hard = [key for key in each if key not in {*shown, "conditions"} or isinstance(each[key], dict)]
            hard += [] if self._plain_conditions((*path, "conditions")) else ["conditions"]
            yield from ((f"{key} of {name}", self._line((*path, key))) for key in hard)

    def _at(self, path: Path) -> Any:
        value: Any = self.rule
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def _said(self, path: Path) -> str:
        """A value as a person would write it: a text without its quotes, all else as it stands."""
        value = self._at(path)
        if value is None or isinstance(value, str):
            return value or ""
        try:
            start, end = source_of(self.document.text, (*self.base, *path))
        except CannotEditError:
            return str(value)
        return self.document.text[start:end]

    def _line(self, path: Path) -> int:
        return self.document.position((*self.base, *path))[0] if self._at(path) is not None else 0


def lines_in(when: str) -> list[tuple[str, str]]:
    """What a formula holds against numbers: the words before each, and the number.

    >>> lines_in("senders >= 6 and received >= 150000 and name == 'a > 3'")
    [('senders >=', '6'), ('received >=', '150000')]
    """
    found = []
    for match in _LINE.finditer(when):
        if match["number"]:
            before = _JOINS.split(when[: match.start()])[-1]
            after = _JOINS.split(when[match.end() :])[0].strip()
            said = f"{before} {match['sign']}" + (f" … {after}" if after else "")
            found.append((" ".join(said.split()), match["number"]))
    return found


def line_spans(when: str) -> list[tuple[int, int]]:
    """Where these numbers stand."""
    return [match.span("number") for match in _LINE.finditer(when) if match["number"]]


@cache
def written_figure() -> Mapping[str, Any]:
    """The fields of a figure."""
    return FigureFields.model_fields


def _name(path: Path) -> str:
    return SEPARATOR.join(map(str, path))
