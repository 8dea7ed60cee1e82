"""Large rule sets for measuring: velocity rules over four key spaces that share windows, as a risk team's rules do.

A *group* is what rules can share: key space, aggregate with its field and filter, and window. There are
4 x 8 x 5 = 160; a set of n rules spreads over about 0.4 n of them and at most all, so that 100 rules use 40 groups and
1,000 rules 160. Rules of one group differ in their threshold. The lines stand above what the hottest key of the default
``tx`` workload reaches in 1,000 s (two million records), so that few alerts fire. The records need ``with_device``.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from crossline.generate.tx import AMOUNT_MEDIAN_CENTS, AMOUNT_SIGMA, SHARE_MAX

EVENT_RATE_PER_S = 2_000
RUN_S = 1_000
MERCHANTS = 2_000
CASH_SHARE = 0.2
GROUPS_PER_RULE = 0.4
STEP = 0.1

# Share of all records that the hottest key has: of an account's records, one of its cards has 80 %, one device 90 %.
SPACES = {
    "card_hash": 0.8 * SHARE_MAX,
    "account_id": SHARE_MAX,
    "device_id": 0.9 * SHARE_MAX,
    "merchant_id": 1 / MERCHANTS,
}
WINDOWS = {"10s": 10, "1m": 60, "10m": 600, "1h": 3_600, "24h": 86_400}


class Measure(NamedTuple):
    """What a rule measures; ``field`` "other" is the merchant of a person's key, the account of a merchant's."""

    name: str
    aggregate: str
    field: str | None
    cash_only: bool = False


MEASURES = (
    Measure("count", "count", None),
    Measure("cash", "count", None, cash_only=True),
    Measure("sum", "sum", "amount_cents"),
    Measure("avg", "avg", "amount_cents"),
    Measure("min", "min", "amount_cents"),
    Measure("max", "max", "amount_cents"),
    Measure("stddev", "stddev", "amount_cents"),
    Measure("others", "distinct_count", "other"),
)
GROUPS = tuple((space, measure, window) for space in SPACES for measure in MEASURES for window in WINDOWS)


def many_rules(count: int) -> list[dict[str, Any]]:
    """``count`` rules as their YAML would read; the same every time."""
    stride = max(1, round(len(GROUPS) / max(1.0, GROUPS_PER_RULE * count)))
    groups = GROUPS[::stride]
    return [_rule(index, *groups[index % len(groups)], index // len(groups)) for index in range(count)]


def many_rules_yaml(count: int) -> str:
    """The rules as YAML, one a line."""
    head = f"# {count} velocity rules for measuring; made by `crossline generate rules --count {count}`.\n"
    return head + "".join(f"- {json.dumps(rule)}\n" for rule in many_rules(count))


def _rule(index: int, space: str, measure: Measure, window: str, step: int) -> dict[str, Any]:
    rule: dict[str, Any] = {
        "rule_id": f"many_{index:04d}",
        "version": 1,
        "rule_type": "velocity",
        "source_topic": "payments",
        "description": f"{measure.name} {{value}} by {space} {{{space}}} in {{window}}",
        "group_by": space,
        "aggregation_type": measure.aggregate,
        "window": window,
        "aggregation_threshold": round(_line(space, measure, WINDOWS[window]) * (1 + STEP * step)),
    }
    if measure.field == "other":
        rule["aggregation_field"] = "account_id" if space == "merchant_id" else "merchant_id"
    elif measure.field:
        rule["aggregation_field"] = measure.field
    if measure.cash_only:
        rule["conditions"] = [{"field": "payment_type", "operator": "==", "value": "CSH"}]
    return rule


def _line(space: str, measure: Measure, window_s: int) -> float:
    """A line that the hottest key hardly reaches: expected value and six standard deviations, or a rare amount."""
    payments = SPACES[space] * EVENT_RATE_PER_S * min(window_s, RUN_S) * (CASH_SHARE if measure.cash_only else 1.0)
    spread = 6 * math.sqrt(payments)
    match measure.aggregate:
        case "sum":
            mean = AMOUNT_MEDIAN_CENTS * math.exp(AMOUNT_SIGMA**2 / 2)
            root_mean_square = AMOUNT_MEDIAN_CENTS * math.exp(AMOUNT_SIGMA**2)
            return payments * mean + spread * root_mean_square + 100_000
        case "distinct_count" if space != "merchant_id":
            return MERCHANTS * (1 - math.exp(-payments / MERCHANTS)) + spread + 4
        case "count" | "distinct_count":
            return payments + spread + 4
        case _:
            return {"avg": 120_000, "min": 100_000, "max": 150_000, "stddev": 100_000}[measure.aggregate]
