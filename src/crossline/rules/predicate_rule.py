"""Rule types that are figures and a formula in the end: what they share, once their own fields have become these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from crossline.basics.conditions.condition import Condition
from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.sensitive import wrong_in
from crossline.basics.formula.tree import FAMILIES
from crossline.basics.streams.inputs import Reading, SideInput
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.fieldtypes import Duration
from crossline.basics.texts.problems import Finding, Path
from crossline.programs.kinds import Operator
from crossline.programs.program import (
    Comparison,
    CrossKeyFigure,
    Emission,
    Evidence,
    FeatureQuery,
    FormulaPredicate,
    Program,
)
from crossline.programs.registry import declared
from crossline.programs.thresholds import ThresholdLine
from crossline.rules.base import Defaults, Rule
from crossline.rules.figure import FigureFields, kinds
from crossline.rules.risk import beside_panes, risk_written
from crossline.rules.sentence import RESERVED, PartKind, key_parts, key_text, number, unquoted, value_text


class PredicateRule(Rule):
    """A rule whose ``figures_of`` and ``formulas_of`` say what it becomes."""

    emit: Literal["on_crossing", "every"] = Field(
        "on_crossing", description="Alert when it begins to hold for the key, or at every record where it does."
    )
    cooldown: Duration = Field(0, description="After an alert, none for the same key for this long.")
    emit_to_sink: bool = Field(True, description="`false`: recorded, but not delivered to a sink.")

    def findings(self) -> list[Finding]:
        """What its figures cannot be together."""
        figures = getattr(self, "figures", None)
        return super().findings() + list(beside_panes(figures if isinstance(figures, dict) else {}))

    @model_validator(mode="after")
    def _has_figures(self) -> Self:
        if self.figures_of():
            return self
        raise ValueError(f"figures: {type(self).__qualname__}.figures_of gave none, and its findings do not say why")

    def figures_of(self) -> Mapping[str, FigureFields]:
        """The figures, by the names that the formulas have for them; one at least, all of one key.

        None at all where what they come from could not be read.
        """
        raise NotImplementedError

    def formulas_of(self) -> tuple[str, str | None]:
        """When it is satisfied, and what an alert shows as its value (None: the first comparison's left side).

        Asked only where there are figures.
        """
        raise NotImplementedError

    def line_of(self) -> tuple[str, Operator, float | None, Path] | None:
        """What is held against a number, how, that number, and where it stands; None where there is none."""
        return None

    def lines_of(self) -> tuple[Comparison, ...]:
        """The thresholds of an alert's value, where the formula has them in another form; of several the nearest."""
        return ()

    def drawn(self, spec: StreamSpec) -> ThresholdLine | None:
        """The number of ``line_of``."""
        line = self.line_of() if self.figures_of() else None
        if line is None:
            return None
        text, operator, threshold, path = line
        if threshold is None:
            return None
        if text == self.formulas_of()[1]:
            return ThresholdLine(text, operator, threshold, path)
        value = check(text, self.known_in(spec), path, wanted="value")
        if not isinstance(value, Formula):
            raise TypeError(f"{self.rule_id}: what is held against {path} is no formula of its figures: {value}")
        return ThresholdLine(value.canonical, operator, threshold, path, value=value)

    def redrawn(self, threshold: float, spec: StreamSpec) -> Self:  # noqa: ARG002 - a formula is read with its stream
        """With another number there."""
        line = self.line_of()
        if line is None:
            raise ValueError(f"{self.rule_id} draws no line")
        first, *rest = map(str, line[-1])
        value = getattr(self, first).model_copy(update={rest[0]: threshold}) if rest else threshold
        return self.model_copy(update={first: value})

    def shows_of(self) -> Mapping[str, str]:
        """What else an alert shows in its evidence, by name; formulas of numbers."""
        return {}

    def texts(self) -> list[str]:
        """All that its figures are read in."""
        return [each for each in (*self.formulas_of(), *self.shows_of().values()) if each is not None]

    def path_of(self, part: str) -> Path:
        """Where in the rule stands what ``part`` comes from: ``when``, ``value``, or a figure by its name."""
        raise NotImplementedError

    def place_of(self, part: str, figure: str = "") -> Path:
        """The formula, or what the figure has of its own; else what the rule has for all of them."""
        if part == "when":
            return self.path_of("when")
        own = self.figures_of().get(figure)
        if own is not None and figure in (getattr(self, "figures", None) or {}) and getattr(own, part, None):
            return (*self.path_of(figure), part)
        return super().place_of(part)

    @property
    def lists_records(self) -> bool:
        """Whether an alert lists the records of the first figure's window."""
        return False

    @cached_property
    def _used(self) -> Mapping[str, FigureFields]:
        """The figures that the formulas name: others cost nothing and change nothing. All, where they name none."""
        figures, text = self.figures_of(), unquoted(" ".join(self.texts()) if self.figures_of() else "")
        return {name: each for name, each in figures.items() if _met(text, name)[0] < len(text)} or figures

    @property
    def _in_reach(self) -> Mapping[str, FigureFields]:
        """The figures whose streams it reads: one that no formula names brings none of its own."""
        mine = {None, self.source_topic}
        return {name: each for name, each in self.figures_of().items() if name in self._used or each.source in mine}

    def known_in(self, spec: StreamSpec) -> dict[str, FieldKind]:
        """The names that its formulas may have, with their kinds: fields and figures, of which one may be misspelt."""
        return {**dict.fromkeys(self.unread_figures(), "number"), **kinds(self._in_reach, spec)}

    def unread_figures(self) -> tuple[str, ...]:
        """The figures that the file has and no formula names."""
        return tuple(name for name in self.figures_of() if name not in self._used)

    @cached_property
    def _in_order(self) -> Mapping[str, FigureFields]:
        """The figures as the formulas come to them: a mapping in a file has no order that a person means."""
        figures = self._used
        return {name: figures[name] for name in sorted(figures, key=partial(_met, " ".join(self.texts())))}

    def all_conditions(self) -> tuple[Condition, ...]:
        """Its own, and those of its figures."""
        return (*super().all_conditions(), *(figure.condition for figure in self.figures_of().values()))

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The key that its figures have; of several, that of the first that the formulas name."""
        figures = self._used
        several = len({each.key_fields for each in figures.values()}) > 1
        return next(iter((self._in_order if several else figures).values())).key_fields

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, ...], Mapping[str, FigureFields]]:
        """The figures of each key, its own first."""
        figures = self._used
        several = len({each.key_fields for each in figures.values()}) > 1
        found: dict[tuple[str, ...], dict[str, FigureFields]] = {}
        for name, figure in (self._in_order if several else figures).items():
            found.setdefault(figure.key_fields, {})[name] = figure
        return found

    def _read(self, figures: Iterable[FigureFields]) -> Reading:
        """What ``figures`` of one key are of."""
        read = super().reading
        found = {figure.side_input(read.judges) for figure in figures}
        return replace(read, side_inputs=tuple(sorted((each for each in found if each is not None), key=str)))

    @property
    def reading(self) -> Reading:
        """Its stream, and those that its figures are of besides."""
        own, *others = [self._read(each.values()) for each in self._by_key.values()] or [super().reading]
        return replace(own, cross_key=tuple(dict.fromkeys(others)))

    @classmethod
    def keys_written(cls, body: Mapping[str, Any]) -> Any:
        """Of several figures, that of the first that the formulas name."""
        figures, features = body.get("figures"), body.get("features")
        if not isinstance(figures, dict):
            return super().keys_written(body)
        listed = [features] if isinstance(features, dict) else features if isinstance(features, list) else []
        named = [text for each in listed for text in (each.values() if isinstance(each, dict) else [each])]
        texts = [body.get("when"), body.get("value"), *named]
        order = sorted(map(str, figures), key=partial(_met, " ".join(map(str, texts))))
        return super().keys_written({"figures": {name: figures.get(name) for name in order}})

    @classmethod
    def reading_written(cls, body: Mapping[str, Any]) -> Reading | None:
        """With the streams of figures, where these are written as such."""
        read, figures = super().reading_written(body), body.get("figures")
        if read is None or not isinstance(figures, dict):
            return read
        given = [each.get("source_topic") for each in figures.values() if isinstance(each, dict) and "risk" not in each]
        given += map(risk_written, figures.values())
        side_inputs = sorted({each for each in given if isinstance(each, str)} - {*read.judged})
        return replace(read, side_inputs=tuple(SideInput(each) for each in side_inputs))

    def place_of_source(self, source: str) -> Path:
        """The figure that is of it, where it is not the rule's own."""
        for name, figure in self.figures_of().items():
            if figure.source == source and source not in self.reading.judged:
                return (*self.path_of(name), "source_topic" if figure.risk is None else "risk")
        return super().place_of_source(source)

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields that the stream does not have or of the wrong type, and what is wrong with the formulas."""
        findings = super().stream_findings(name, spec, lists)
        if not self.figures_of():
            return findings
        own = [
            placed
            for figure, fields in self._in_reach.items()
            for found in fields.findings(name, spec, lists)
            if (placed := self.placed(figure, found)) is not None
        ]
        own = list({(each.path, each.found): each for each in reversed(own)}.values())[::-1]  # of one field once
        own += [
            Finding(self.path_of(figure), f"a figure named {figure}", f"a name that no field of stream {name} has")
            for figure in self.figures_of()
            if figure in self.beside(spec)
        ]
        return findings + (own or self._formulas(spec)[1] or list(self._unread(spec)))

    def beside(self, spec: StreamSpec) -> Collection[str]:
        """The fields that stand beside figures in the formulas, and must be called otherwise."""
        return spec.columns

    def placed(self, figure: str, found: Finding) -> Finding | None:
        """What is wrong with a figure, at its place in the rule; None where it is reported elsewhere."""
        return replace(found, path=(*self.path_of(figure), *found.path))

    def _unread(self, spec: StreamSpec) -> Iterator[Finding]:
        """Its figures, where no formula reads one of them: most often one was meant. Of several, see `rules lint`."""
        read = {name for formula in self._formulas(spec)[0] if formula is not None for name in formula.names}
        figures = self.figures_of()
        for name in figures if not read & set(figures) else ():
            if name not in read:
                yield Finding(self.path_of(name), f"figure {name}", "a figure that when or value names")

    def _formulas(self, spec: StreamSpec) -> tuple[list[Formula | None], list[Finding]]:
        """The formulas of ``formulas_of``, and what is wrong with them."""
        (when, value), known = self.formulas_of(), self.known_in(spec)
        checked = [check(when, known, self.path_of("when"), wanted="verdict")]
        checked += [check(value, known, self.path_of("value"), wanted="value")] if value is not None else []
        findings = wrong_in(checked, spec.columns, (self.path_of("when"), self.path_of("value")))
        return [each if isinstance(each, Formula) else None for each in checked], findings

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """Its figures, and the formula over them."""
        feed = self.feed(defaults, self.key_fields)
        own, others = self.own_figures, list(self._by_key.values())[1:]
        judged_ms = self.lateness(defaults).judged_ms
        return Program(
            feed,
            tuple(self._in_order[name].figure(feed, spec) for name in own),
            self.verdict(spec),
            Emission(every=self.emit == "every", cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            Evidence(lists=self.lists_records),
            judge_lateness_ms=judged_ms,
            cross_key=tuple(self._brings(each, spec, defaults, judged_ms) for each in others),
        )

    def _brings(
        self, figures: Mapping[str, FigureFields], spec: StreamSpec, defaults: Defaults, judged_ms: int | None
    ) -> CrossKeyFigure:
        """The figures of another key at the records that the rule judges, with the fields of the rule's own key."""
        first, *_ = figures.values()
        feed = self.feed(defaults, first.key_fields)
        query = Program(
            feed,
            tuple(each.figure(feed, spec) for each in figures.values()),
            FeatureQuery(tuple(figures), self.key_fields),
            judge_lateness_ms=judged_ms,
        )
        kinds_of = tuple(each.kind(spec) for each in figures.values())
        return CrossKeyFigure(self._read(figures.values()), query, kinds_of)

    @property
    def own_figures(self) -> tuple[str, ...]:
        """The names of those of its own key, as the formulas come to them."""
        own = self.key_fields
        return tuple(name for name, each in self._in_order.items() if each.key_fields == own)

    def verdict(self, spec: StreamSpec) -> FormulaPredicate:
        """What is made of the figures. Raises ValueError where the rule does not fit its stream."""
        (when, *value), findings = self._formulas(spec)
        if when is None or findings:
            raise ValueError(f"{self.rule_id} does not fit its stream: {findings}")
        shown = value[0] if value else _left(when)
        return FormulaPredicate(self.own_figures, when, shown, self._shows(spec), lines=self.lines_of())

    def _shows(self, spec: StreamSpec) -> tuple[tuple[str, Formula], ...]:
        known, made = self.known_in(spec), []
        for name, text in self.shows_of().items():
            formula = check(text, known, self.path_of("when"), wanted="value")
            if not isinstance(formula, Formula):
                raise TypeError(f"{self.rule_id}: {name} is no formula of its figures: {formula}")
            made.append((name, formula))
        return tuple(made)

    def placeholder_names(self, spec: StreamSpec | None) -> Collection[str] | None:
        """What the formulas read, the fields of the key, and what every alert has."""
        if spec is None or not self.figures_of():
            return None
        formulas, findings = self._formulas(spec)
        if findings:
            return None  # reported already; the names that braces may hold are unknown
        read = (name for each in formulas if each is not None for name in each.names)
        return tuple(dict.fromkeys((*RESERVED, *self.key_fields, *read, *self.shows_of())))

    def remark(self) -> str | None:
        """Which of its figures are shared ones."""
        named = [
            f"{name} is version {each.version} of the shared figure {each.shared}"
            for name, each in self.figures_of().items()
            if each.shared is not None
        ]
        return f"{'; '.join(named)}." if named else None

    def in_words(self, value: float | None, read: Mapping[str, Any], by: str = "") -> str:  # noqa: ARG002 - the figures say more
        """What was found: ``tries 7, declines 5``. ``read``: the figures and fields, by name, of one record.

        ``by``: the text of the key, beginning with a space; empty without a key.
        """
        own = self._timed
        lines = [f"{name} {value_text(read.get(name), timed=timed)}" for name, timed in own.items()]
        return ", ".join([*lines, *(f"{n} {value_text(each)}" for n, each in read.items() if n not in own)]) + by

    @cached_property
    def _timed(self) -> dict[str, bool]:
        """Its figures as the formulas come to them, and whether each is a time."""
        return {name: declared(each.aggregate).in_ms for name, each in self._in_order.items()}

    @cached_property
    def _by(self) -> tuple[tuple[PartKind, str], ...]:
        return tuple(key_parts(self.key_fields))

    def line_in_words(self, operator: str | None, threshold: float | None) -> str:
        """`` (line: 10)``; nothing where there is none."""
        if operator is None or threshold is None:
            return ""
        return f" (line: {'' if operator == '>=' else f'{operator} '}{number(threshold)})"

    @property
    def same(self) -> str:
        """`` of the same card``: whose figures it asks for; nothing where there is no key."""
        return f" of the same {' and '.join(self.key_fields)}" if self.key_fields else ""

    def fires_where(self) -> str | None:
        """The condition in words, where the rule type writes the formula; None: the formula itself is shown."""
        return None

    def measure(self, value: float) -> str:
        """So much of an alert's value, with its unit."""
        return number(value)

    def sentence(
        self,
        value: float | None,
        threshold: float | None,
        operator: str | None,
        window_ms: int | None,
        key: Mapping[str, Any],
        count: int | None,
        evidence: Mapping[str, Any],
    ) -> str:
        """The description filled in; without one what was found, by which key, and the line: never the formula."""
        if self.description:
            return super().sentence(value, threshold, operator, window_ms, key, count, evidence)
        found = self.in_words(value, evidence, key_text(self._by, key))
        return f"{found}{self.line_in_words(operator, threshold)}"


def _met(text: str, name: str) -> tuple[int, str]:
    """Where ``name`` comes first in ``text``."""
    found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)
    return (found.start() if found else len(text)), name


def _left(when: Formula) -> Formula | None:
    """The left side of the first comparison, where that is a number."""
    node = when.first_comparison_left()
    return Formula(when.text, node) if node is not None and FAMILIES[node.kind] == "number" else None
