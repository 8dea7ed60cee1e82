"""Figures from files as a plan that computes them for every record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from crossline.api.declarations import Stream, check_single_stream
from crossline.backtest.figures.figure_table import figure_types
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.rule_files import declared_figures, read_figures
from crossline.rules.composition import Sources
from crossline.rules.figure_tables import PlacedFigure, feature_query
from crossline.rules.ruleset import RuleSet
from crossline.runtime.stages.feature_table import FigureTypes


@dataclass(frozen=True, slots=True)
class FigurePlan:
    """The programs that compute figures, and the columns of their table."""

    rules: RuleSet
    columns: FigureTypes


def figure_plan(path: Path, stream: Stream, scored_rules: RuleSet | None) -> FigurePlan:
    """The plan of the figures in a file or folder, all of ``stream``; ``scored_rules``: the rules of risk scores.

    Raises:
        RefusedError: the files have errors; the message lists all of them.
        UsageError: figures of another stream, or risk scores without rules.
    """
    specs = {stream.name: stream.spec}
    declared = declared_figures(read_figures(path, specs, None))
    if not declared:
        raise UsageError(f"{path}: found only figures that are retired; expected one that is not")
    elsewhere = next((each for each in declared if each.stream != stream.name), None)
    if elsewhere is not None:
        raise UsageError(f"{elsewhere.where}: found a figure of {elsewhere.stream}; expected those of {stream.name}")
    rules = _hitting(declared, scored_rules, stream)
    both = RuleSet((*feature_query(declared, rules.heads).versions, *rules.versions))
    check_single_stream(both, stream)
    return FigurePlan(both, figure_types(declared, specs))


def _hitting(declared: list[PlacedFigure], scored_rules: RuleSet | None, stream: Stream) -> RuleSet:
    """The rules whose hits make up risk scores; none without scores."""
    scores = [each for each in declared if each.fields.risk is not None]
    if not scores:
        return RuleSet()
    if scored_rules is None:
        raise UsageError(f"{scores[0].where}: {scores[0].name} is a risk score; pass the rules that it is of as rules=")
    sources = Sources.of({stream.name: stream.spec}, scored_rules.heads)
    problems = [
        each.problem(replace(finding, path=("risk",)))
        for each in scores
        if (finding := sources.finding(str(each.fields.source))) is not None
    ]
    if problems:
        raise RefusedError(problems)
    return scored_rules
