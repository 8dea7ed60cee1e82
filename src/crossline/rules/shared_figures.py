"""Rules that name shared figures: whose definitions become part of the rules' bodies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crossline.basics.texts.problems import Finding, listed, nearest, one_of, shown
from crossline.rules.base import Rule
from crossline.rules.figure import FigureFields
from crossline.rules.figure_tables import PlacedFigure, SharedFigure, below
from crossline.rules.rule_reader import Defined


@dataclass(frozen=True, slots=True)
class SharedFigures:
    """The shared figures that rules may name. ``refused``: files that could not be read, in which more may stand."""

    figures: tuple[PlacedFigure, ...] = ()
    refused: tuple[str, ...] = ()

    def define(self, data: Any) -> Defined:
        """The rule ``data`` with the definitions of the figures that it names."""
        written = data.get("figures") if isinstance(data, dict) else None
        named = [name for name, raw in written.items() if _names_one(raw)] if isinstance(written, dict) else []
        if not isinstance(written, dict) or not named:
            return Defined(data)
        findings, unready, where, figures = list[Finding](), list[Finding](), dict[str, str](), dict(written)
        for name in named:
            raw = written[name]
            chosen = self._chosen(raw, data.get("status", "active"))
            if isinstance(chosen, Finding):
                findings.append(below(("figures", name), chosen))
                continue
            if chosen is None:  # as a rule log has it
                continue
            where[name] = chosen.where
            figures[name] = {"figure": raw["figure"], **_definition(chosen, data.get("source_topic"))}
            unready += [below(("figures", name), each) for each in _unready(chosen, data.get("status", "active"))]
        return Defined({**data, "figures": figures}, findings, unready, where)

    def _chosen(self, raw: Mapping[str, Any], status: Any) -> PlacedFigure | Finding | None:
        """The version that ``raw`` names, or why there is none; None where its definition stands there already."""
        versions = {each.shared.version: each for each in self.figures if each.name == raw["figure"] and each.shared}
        own, number = {name: raw[name] for name in raw if name not in {"figure", "version"}}, raw.get("version")
        if number is not None and type(number) is not int:
            return Finding(("version",), shown(number), "a version of the figure: a whole number")
        if own and number is None:
            expected = "nothing beside figure and version: the rest is the figure's"
            return Finding((), listed(sorted(map(str, own))), expected)
        if number not in versions and (own or not versions):
            return None if own else self._unknown(str(raw["figure"]))
        if number is not None and number not in versions:
            there = ", ".join(str(each) for each in sorted(versions))
            return Finding(("version",), shown(number), f"a version of figure {raw['figure']}: {there}")
        newest = max(versions.values(), key=lambda each: _choice(each, status))
        chosen = newest if number is None else versions[number]
        if own and _plain(own) != _plain(_definition(chosen, None)):
            expected = f"nothing beside figure and version, or the definition at {chosen.where}"
            return Finding((), "another definition than the figure's", expected)
        return chosen

    def _unknown(self, name: str) -> Finding:
        known = sorted({each.name for each in self.figures})
        hint = nearest(name, known)
        if hint is None and self.refused:
            hint = f"it may stand in {one_of(self.refused)}, which cannot be read"
        there = f"the id of a shared figure: {one_of(known)}" if known else "the id of a shared figure; there are none"
        return Finding(("figure",), shown(name), there, hint)


def _names_one(raw: Any) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("figure"), str)


def _choice(figure: PlacedFigure, status: Any) -> tuple[bool, bool, int]:
    shared = _shared(figure)
    return not _unready(figure, status), shared.status != "draft", shared.version


def _shared(figure: PlacedFigure) -> SharedFigure:
    if figure.shared is None:
        raise TypeError(f"{figure.name} is a table's")
    return figure.shared


def _unready(figure: PlacedFigure, status: Any) -> list[Finding]:
    """Why a rule of this status may not begin to name the figure."""
    now = _shared(figure).status
    if now == "active" or (now == "shadow" and status in ("draft", "shadow")):
        return []
    found = f"version {_shared(figure).version} of {figure.name}, which is {now}"
    expected = "a figure that is active, or shadow where the rule is shadow too" if now == "shadow" else "one in use"
    return [Finding((), found, expected, f"its status stands at {figure.where}")]


def _definition(figure: PlacedFigure, stream: Any) -> dict[str, Any]:
    """What a rule of ``stream`` has in place of its name; with the figure's own stream where that is another."""
    shared = _shared(figure)
    other = stream is not None and stream != shared.source_topic and shared.risk is None  # which is of no stream
    elsewhere = {"source_topic": shared.source_topic} if other else {}
    return {"version": shared.version, **elsewhere, **shared.definition()}


def _plain(written: Mapping[str, Any]) -> Any:
    """The definition in one way of writing it; None where it is none."""
    try:
        read = FigureFields.model_validate({name: each for name, each in written.items() if name != "version"})
    except ValidationError:
        return None
    return read.model_dump(mode="json", exclude_defaults=True)


def shared_in(rule: Rule) -> dict[str, FigureFields]:
    """The shared figures that are part of the rule's body, by their names in it."""
    figures = getattr(rule, "figures", None)
    given = figures.items() if isinstance(figures, dict) else ()
    return {name: each for name, each in given if isinstance(each, FigureFields) and each.shared is not None}
