"""The figures of one value of a field from a replica, in the form of alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from crossline.basics.times import instant_text
from crossline.evaluate.alerts.alert_json import json_value
from crossline.evaluate.entity.key_figures import CurrentFigure, Unanswered


class KeyAsked(NamedTuple):
    """Whose figures are asked for: a ``value``, as text, of a ``field`` of keys."""

    field: str
    value: str


class KeyFigures(NamedTuple):
    """Its ``figures``, and the rules that are ``missing`` there, each with why. ``failed``: why there is none of it."""

    figures: list[dict[str, Any]]
    missing: list[dict[str, Any]]
    failed: str = ""


def key_figures_of(found: Iterable[CurrentFigure | Unanswered]) -> KeyFigures:
    """What was ``found``, by rule."""
    each = list(found)
    figures = [_figure(one) for one in each if isinstance(one, CurrentFigure)]
    missing = [{"rule_id": one.rule_id, "why": one.why} for one in each if isinstance(one, Unanswered)]
    return KeyFigures(sorted(figures, key=_by_rule), sorted(missing, key=lambda one: (one["rule_id"], one["why"])))


def _by_rule(figure: Mapping[str, Any]) -> tuple[str, int]:
    return figure["rule_id"], figure["rule_version"]


def _figure(now: CurrentFigure) -> dict[str, Any]:
    asked, line = now.queried, now.queried.line
    return {
        "name": asked.name,
        "rule_id": asked.rule_id,
        "rule_version": asked.version,
        **({"figure": asked.shared} if asked.shared else {}),
        "value": json_value(now.value),
        "operator": line.operator if line is not None else None,
        "threshold": line.threshold if line is not None else None,
        "count": now.count,
        "window_start": instant_text(now.window_start_ms),
        "window_end": instant_text(now.window_end_ms),
        "as_of": instant_text(now.now_ms),
    }
