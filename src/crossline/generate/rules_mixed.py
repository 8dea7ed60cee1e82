"""Large rule sets of mixed types for measuring, as a risk team's rules are: see ``rules_many`` for what they share.

Of 40 rules 16 are velocity rules, spread over groups as ``many_rules`` spreads them; four each are formulas, bursts and
thresholds; two each are anomalies, journeys that nobody makes, dormancies, sequences and composites of velocity rules;
one is an absence, and one a list. Rules of a type take key spaces and windows in turns, and differ in their lines once
these are through. Lines are such that few alerts fire. The records need ``with_device``; list rules read ``LIST``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from crossline.generate.rules_many import CASH_SHARE, EVENT_RATE_PER_S, RUN_S, SPACES, STEP, WINDOWS, many_rules

LIST = "stolen_cards"
CASH = {"field": "payment_type", "operator": "==", "value": "CSH"}
WEB = {"field": "payment_type", "operator": "==", "value": "WEB"}
PEOPLE = tuple(space for space in SPACES if space != "merchant_id")
SHORT = ("10s", "1m", "10m")

Body = dict[str, Any]


def mixed_rules(count: int) -> list[Body]:
    """``count`` rules as their YAML would read; the same every time."""
    kinds = [CYCLE[index % len(CYCLE)] for index in range(count)]
    velocity = iter(many_rules(count))
    bodies, met = [], dict.fromkeys(TYPES, 0)
    for index, kind in enumerate(kinds):
        if kind == "velocity":
            body = next(velocity)
        else:
            body = {"version": 1, "rule_type": kind, "source_topic": "payments", **TYPES[kind](met[kind])}
            met[kind] += 1
        bodies.append({**body, "rule_id": f"mixed_{index:04d}"})
    return [_composed(body, bodies) if body["rule_type"] == "composite" else body for body in bodies]


def _place(number: int, spaces: tuple[str, ...] = tuple(SPACES)) -> tuple[str, str, float]:
    """Key space and window of rule number ``number`` of a type, and by how much its lines are raised."""
    step, place = divmod(number, len(spaces) * len(WINDOWS))
    return spaces[place % len(spaces)], list(WINDOWS)[place // len(spaces)], 1 + STEP * step


def _payments(space: str, window: str) -> float:
    """Records of the hottest key in a window, and a margin."""
    mean = SPACES[space] * EVENT_RATE_PER_S * min(WINDOWS[window], RUN_S)
    return mean + 6 * math.sqrt(mean) + 4


def _formula(number: int) -> Body:
    space, window, more = _place(number)
    common = {"group_by": space, "window": window}
    return {
        "figures": {
            "tries": {"count": True, **common},
            "cash": {"count": True, "conditions": [CASH], **common},
            "usual": {"avg": "amount_cents", "group_by": space, "window": "24h", "include_current": False},
        },
        "when": f"tries >= 12 and cash / tries > {1 - (1 - 4 * CASH_SHARE) / (4 * more):.4f} "
        f"and amount_cents > {20 * more:.1f} * usual",
    }


def _burst(number: int) -> Body:
    space, window, more = _place(number)
    most = round(_payments(space, window) * more)
    return {
        "group_by": space,
        "window": window,
        "aggregation_field": "amount_cents",
        "any_of": [{"count": f"> {most}"}, {"count": f"> {max(5, most // 2)}", "avg": "< 50"}],
    }


def _anomaly(number: int) -> Body:
    space, window, more = _place(number)
    lines = {"z_score": round(30 * more, 1), "direction": "above", "min_points": 20}
    return {"group_by": space, "value_field": "amount_cents", "window": window, **lines}


def _journey(number: int) -> Body:
    space, window, more = _place(number, PEOPLE)
    place = {"latitude_field": "lat", "longitude_field": "lon"}
    return {"group_by": space, "window": window, "max_speed_kmh": 500, "min_distance_km": round(20 * more), **place}


def _dormancy(number: int) -> Body:
    space, window, more = _place(number, PEOPLE)
    small = [{"field": "amount_cents", "operator": "<=", "value": round(100 * more)}]
    return {"group_by": space, "inactive_for": window, "window": "10s", "at_least": 3, "conditions": small}


def _sequence(number: int) -> Body:
    space, window, more = _place(number)
    steps = [
        {"name": "cash", "times": 6 + round(10 * (more - 1)), "conditions": [CASH]},
        {"name": "web", "conditions": [WEB]},
    ]
    return {"group_by": space, "within": window, "strict": True, "steps": steps}


def _absence(number: int) -> Body:
    step, place = divmod(number, len(SPACES) * len(SHORT))
    after = [{"field": "amount_cents", "operator": ">=", "value": round(150_000 * (1 + STEP * step))}]
    within = SHORT[place // len(SPACES)]
    return {"group_by": list(SPACES)[place % len(SPACES)], "within": within, "after": after, "expect": [WEB]}


def _list(number: int) -> Body:
    amount = {"field": "amount_cents", "operator": ">", "value": 1_000 * number}
    return {"field": "card_hash", "list": LIST, "conditions": [amount]}


def _threshold(number: int) -> Body:
    _, _, more = _place(number)
    amount = {"field": "amount_cents", "operator": ">=", "value": round(150_000 * more) + number}
    return {"conditions": [WEB if number % 2 else CASH, amount]}


def _composite(number: int) -> Body:
    space, window, _ = _place(number)
    return {"join_key": space, "window": window}


def _composed(body: Body, bodies: list[Body]) -> Body:
    """A composite of two velocity rules that have its key; of two others than the composites before it take."""
    mine = [each for each in bodies if each["rule_type"] == "velocity" and each["group_by"] == body["join_key"]]
    at = bodies.index(body) % max(1, len(mine) - 1)
    named = {name: value for name, value in body.items() if name != "source_topic"}
    return {**named, "all_of": [each["rule_id"] for each in mine[at : at + 2]]}


TYPES: dict[str, Callable[[int], Body]] = {
    "formula": _formula,
    "burst": _burst,
    "anomaly": _anomaly,
    "geo_velocity": _journey,
    "dormancy": _dormancy,
    "sequence": _sequence,
    "absence": _absence,
    "list": _list,
    "threshold": _threshold,
    "composite": _composite,
}
_HALF = ("formula", "velocity", "burst", "velocity", "threshold", "velocity")
CYCLE = (
    *(*_HALF, "anomaly", "velocity", "sequence", "velocity"),
    *(*_HALF, "geo_velocity", "dormancy", "absence", "composite"),
    *(*_HALF, "anomaly", "velocity", "sequence", "velocity"),
    *(*_HALF, "geo_velocity", "dormancy", "list", "composite"),
)
