"""Reads the text of a rule as a form: which of its values a person can set, and what is left to the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from crossline.analysis.forms.fields import FormSource, kind_of, rule_in
from crossline.analysis.forms.formulas import lines_in
from crossline.analysis.forms.groups import condition_rows, unshown
from crossline.analysis.forms.parts import figure_rows, hidden_in, hidden_in_figures, part_rows
from crossline.analysis.forms.type_changes import changes_of_type
from crossline.analysis.forms.values import SEPARATOR, FormField, FormRow, FormSection, RuleForm
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Path
from crossline.rules.base import Rule
from crossline.rules.registry import rule_class, rule_types

VALUES_MAX = 3_000
_IS = ("rule_id", "version", "rule_type", "status", "description", "owner")
_READS = ("source_topic", "group_by", "entity", "join_key")
_MEANS = ("severity", "score", "action", "hold", "cooldown", "emit")
_ELSEWHERE = frozenset({"conditions", "figures", "when"})


def form_of(text: str, streams: Mapping[str, StreamSpec]) -> RuleForm:
    """The form of a text with one rule. ``streams``: whose fields are offered."""
    try:
        looked = _looked(text, streams)
    except UsageError as error:
        return RuleForm(why_none=str(error))
    named = looked.rule.get("rule_type")
    return _Reader(looked, written_fields(named if isinstance(named, str) else None)).form()


def _looked(text: str, streams: Mapping[str, StreamSpec]) -> FormSource:
    document, base = rule_in(text)
    looked = FormSource(document, base, streams)
    if (values := _values_in(looked.rule)) > VALUES_MAX:
        raise UsageError(f"the rule has {values:,} values, with what aliases name; the form shows {VALUES_MAX:,}")
    return looked


@cache
def written_fields(rule_type: str | None) -> Mapping[str, Any]:
    """The fields of a rule type, of an unknown one those that all have; not those that bytes of a file are put into."""
    model = rule_class(rule_type) or Rule
    return {name: info for name, info in model.model_fields.items() if name not in model.files.values()}


def _values_in(data: Any) -> int:
    count, waiting = 0, [data]
    while waiting:
        value = waiting.pop()
        count += 1
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return count


class _Reader:
    """Reads one rule. ``known``: the fields of its type."""

    def __init__(self, looked: FormSource, known: Mapping[str, Any]) -> None:
        self.looked = looked
        self.known = known
        self.seen: set[str] = set()
        self.left: list[Path] = []

    def form(self) -> RuleForm:
        """All of it."""
        rule, known = self.looked.rule, self.known
        spoken = {*_IS, *_READS, *_MEANS, *_ELSEWHERE}
        own = [name for name in known if name not in Rule.model_fields and name not in spoken]
        more = [name for name in Rule.model_fields if name not in spoken and name in rule]
        sections = (
            self._section("What it is", _IS),
            self._section("What it reads", _READS, self._conditions()),
            self._section("What it counts", (), self._figures()),
            self._section("When it fires", own, (), tuple(self._when())),
            self._section("What a hit means", _MEANS),
            self._section("More of the text", more),
        )
        unseen = [(name,) for name in rule if name not in self.seen]
        left = [(_spoken(path), self.looked.line(path)) for path in [*unseen, *self.left]]
        shown = tuple(each for each in sections if each.fields or each.rows)
        return RuleForm(shown, tuple(sorted(left, key=lambda each: each[1])), changes_of_type(self.looked))

    def _section(
        self, title: str, names: Sequence[str], rows: Sequence[FormRow] = (), first: Sequence[FormField] = ()
    ) -> FormSection:
        fields, found = list(first), list(rows)
        for name in names:
            if name not in self.known:
                continue
            annotation = self.known[name].annotation
            if name == "rule_type":
                fields.append(self.looked.shown((name,), "rule type", "choice", tuple(rule_types())))
                self.seen.add(name)
            elif (field := self.looked.field((name,), self.known[name])) is not None:
                fields.append(field)
                self.seen.add(name)
            elif kind_of(annotation) is None and (parts := part_rows(self.looked, (name,), annotation)) is not None:
                found += parts
                self.left += hidden_in(self.looked, (name,), annotation)
                self.seen.add(name)
        return FormSection(title, tuple(fields), tuple(found))

    def _conditions(self) -> tuple[FormRow, ...]:
        if "conditions" not in self.known:
            return ()
        self.seen.add("conditions")
        self.left += unshown(self.looked, ("conditions",))
        return condition_rows(self.looked, ("conditions",), self.looked.columns())

    def _figures(self) -> tuple[FormRow, ...]:
        rows = figure_rows(self.looked) if "figures" in self.known else ()
        if rows:
            self.seen.add("figures")
            self.left += hidden_in_figures(self.looked)
        return rows

    def _when(self) -> Iterator[FormField]:
        """The formula, and each threshold in it."""
        text, path = self.looked.value(("when",)), ("when",)
        if "when" not in self.known or not isinstance(text, str | None):
            return
        self.seen.add("when")
        line, place = self.looked.line(path), self.looked.place(path)
        yield FormField("when", "when", "long", text or "", (), "The rule fires where this holds.", line, place)
        for number, (label, found) in enumerate(lines_in(text or "")):
            yield FormField(f"line{SEPARATOR}{number}", label, "value", found, (), "", line)


def _spoken(path: Path) -> str:
    """``conditions, 2, any, 1``: places of lists from 1, as a person counts."""
    return ", ".join(str(step + 1) if isinstance(step, int) else step for step in path)
