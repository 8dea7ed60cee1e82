"""Rule types that are figures and a formula in the end: what they share, once their own fields have become these."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

from pydantic import Field

from crossline.core.conditions.condition import Condition
from crossline.core.figures.program import Emission, Evidence, Formed, Program
from crossline.core.formula.check import check
from crossline.core.formula.formula import Formula
from crossline.core.formula.tree import FAMILIES
from crossline.core.rules.base import Defaults, Rule
from crossline.core.rules.figure import FigureFields, kinds
from crossline.core.rules.sentence import RESERVED, PartKind, Sentence, joined, key_parts
from crossline.core.streams.schema import StreamSpec
from crossline.core.texts.fieldtypes import Duration
from crossline.core.texts.problems import Finding, Path


class FormedRule(Rule):
    """A rule whose ``figures_of`` and ``formulas_of`` say what it becomes."""

    emit: Literal["on_crossing", "every"] = Field(
        "on_crossing", description="Alert when it begins to hold for the key, or at every record where it does."
    )
    cooldown: Duration = Field(0, description="After an alert, none for the same key for this long.")
    emit_to_sink: bool = Field(True, description="`false`: recorded, but not delivered to a sink.")

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
    def _in_order(self) -> Mapping[str, FigureFields]:
        """The figures as the formulas come to them: a mapping in a file has no order that a person means."""
        text = " ".join(self.texts())

        def first_met(name: str) -> tuple[int, str]:
            found = re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.])", text)
            return (found.start() if found else len(text)), name

        figures = self.figures_of()
        return {name: figures[name] for name in sorted(figures, key=first_met)}

    def all_conditions(self) -> tuple[Condition, ...]:
        """Its own, and those of its figures."""
        return (*super().all_conditions(), *(figure.condition for figure in self.figures_of().values()))

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The key that its figures have."""
        return next(iter(self.figures_of().values())).group_by

    def stream_findings(self, name: str, spec: StreamSpec, lists: Collection[str] | None) -> list[Finding]:
        """Fields that the stream does not have or of the wrong type, and what is wrong with the formulas."""
        findings = super().stream_findings(name, spec, lists)
        if not self.figures_of():
            return findings
        own = [
            placed
            for figure, fields in self.figures_of().items()
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
        """What is wrong with a figure, at its place in the rule; None where it is told elsewhere."""
        return replace(found, path=(*self.path_of(figure), *found.path))

    def _unread(self, spec: StreamSpec) -> Iterator[Finding]:
        """Figures that no formula reads: most often one was meant."""
        read = {name for formula in self._formulas(spec)[0] if formula is not None for name in formula.names}
        for name in self.figures_of():
            if name not in read:
                yield Finding(self.path_of(name), f"figure {name}", "a figure that when or value names")

    def _formulas(self, spec: StreamSpec) -> tuple[list[Formula | None], list[Finding]]:
        """The formulas of ``formulas_of``, and what is wrong with them."""
        when, value = self.formulas_of()
        known = kinds(self.figures_of(), spec)
        checked = [check(when, known, self.path_of("when"), wanted="verdict")]
        checked += [check(value, known, self.path_of("value"), wanted="value")] if value is not None else []
        findings = [found for each in checked if not isinstance(each, Formula) for found in each]
        return [each if isinstance(each, Formula) else None for each in checked], findings

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:
        """Its figures, and the formula over them."""
        feed = self.feed(defaults, self.key_fields)
        return Program(
            feed,
            tuple(each.figure(feed, spec) for each in self._in_order.values()),
            self.verdict(spec),
            Emission(every=self.emit == "every", cooldown_ms=self.cooldown, delivered=self.emit_to_sink),
            Evidence(lists=self.lists_records),
            judge_lateness_ms=self.lateness(defaults).judged_ms,
        )

    def verdict(self, spec: StreamSpec) -> Formed:
        """What is made of the figures. Raises ValueError where the rule does not fit its stream."""
        (when, *value), findings = self._formulas(spec)
        if when is None or findings:
            raise ValueError(f"{self.rule_id} does not fit its stream: {findings}")
        return Formed(tuple(self._in_order), when, value[0] if value else _left(when), self._shows(spec))

    def _shows(self, spec: StreamSpec) -> tuple[tuple[str, Formula], ...]:
        known, made = kinds(self.figures_of(), spec), []
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
            return None  # told already; what may stand in braces is not known
        read = (name for each in formulas if each is not None for name in each.names)
        return tuple(dict.fromkeys((*RESERVED, *self.key_fields, *read, *self.shows_of())))

    def said_first(self) -> str:
        """How the sentence of a rule without a description begins."""
        return self.formulas_of()[0]

    @cached_property
    def _sentence(self) -> Sentence:
        parts: list[tuple[PartKind, str]] = [("text", self.said_first()), *key_parts(self.key_fields)]
        for number, name in enumerate(self._in_order):
            parts += [("text", f"{', ' if number else ': '}{name} "), ("figure", name)]
        return Sentence(joined(parts))

    def default_sentence(self, value: float | None) -> Sentence:  # noqa: ARG002 - the figures say more
        """``tries >= 6 and declines / tries > 0.5 by card hash c1: tries 7, declines 5``."""
        return self._sentence


class MadeRule(FormedRule):
    """A rule whose figures are made of its own fields: nobody wrote them, and nobody is told of them."""

    def beside(self, spec: StreamSpec) -> Collection[str]:  # noqa: ARG002 - other fields are in no formula of the type
        """None but where a type says so: a stream may have fields that are called as its figures."""
        return ()

    def placed(self, figure: str, found: Finding) -> Finding | None:
        """At the field that the figure is of; its conditions are the rule's, or ask for that field."""
        if found.path[0] == "conditions":
            return None
        return found if found.path[0] == "group_by" else replace(found, path=self.path_of(figure))


def _left(when: Formula) -> Formula | None:
    """The left side of the first comparison, where that is a number."""
    node = when.first_comparison_left()
    return Formula(when.text, node) if node is not None and FAMILIES[node.kind] == "number" else None
