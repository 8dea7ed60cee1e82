"""Prometheus rules of the objectives: a recorded rate per window, and multi-window, multi-burn-rate alerts."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import yaml

from crossline.observe.objectives.budget import PAIRS, WindowPair
from crossline.observe.objectives.declaration import Objective
from crossline.observe.objectives.metrics import BAD, EVENTS

RECORDED = "crossline:slo_bad_events:ratio_rate"
_WINDOWS = tuple(dict.fromkeys(window for pair in PAIRS for window in (pair.short, pair.long)))
_HEAD = "# Written by crossline slo --prometheus, from the section slo of pipeline {}. Load it with `rule_files`.\n"


def rules_of(pipeline: str, objectives: Sequence[Objective]) -> str:
    """A file of rules, as YAML; its groups are empty where there are no objectives."""
    rules = [_recorded(pipeline, window) for window in _WINDOWS] if objectives else []
    for each in objectives:
        rules += [_alert(pipeline, each, severity) for severity in ("critical", "warning")]
    groups = [{"name": f"crossline-slo-{pipeline}", "rules": rules}] if rules else []
    return _HEAD.format(pipeline) + yaml.safe_dump({"groups": groups}, sort_keys=False, width=120)


def _recorded(pipeline: str, window: str) -> dict[str, Any]:
    selector = f'{{pipeline="{pipeline}"}}'
    bad, events = (
        f"sum by (pipeline, objective) (rate(crossline_{name}_total{selector}[{window}]))" for name in (BAD, EVENTS)
    )
    return {"record": f"{RECORDED}{window}", "expr": f"{bad} / {events}"}


def _alert(pipeline: str, objective: Objective, severity: str) -> dict[str, Any]:
    pairs = [each for each in PAIRS if each.severity == severity]
    names = {"critical": "CrosslineBudgetBurnsFast", "warning": "CrosslineBudgetBurns"}
    selector = f'{{pipeline="{pipeline}", objective="{objective.name}"}}'
    spent = " or ".join(f"{float(each.spent * 100):g} % in {each.long}" for each in pairs)
    return {
        "alert": names[severity],
        "expr": " or ".join(_burning(each, selector, 1 - objective.target) for each in pairs),
        "labels": {"severity": severity, "objective": objective.name},
        "annotations": {
            "summary": f"{objective.label} of {pipeline}: at this pace {spent} of the 30 days' error budget is used up",
            "do": f"Promised: {objective.promise}. crossline slo shows what is left of the budget.",
        },
    }


def _burning(pair: WindowPair, selector: str, may_fail: Fraction) -> str:
    bound = _decimal(pair.factor * may_fail)
    return f"({RECORDED}{pair.long}{selector} > {bound} and {RECORDED}{pair.short}{selector} > {bound})"


def _decimal(value: Fraction) -> str:
    """All its digits: targets are decimal numbers, and so are factors."""
    return format((Decimal(value.numerator) / Decimal(value.denominator)).normalize(), "f")
