"""The decisions of R5 and the policy, computed from all earlier records of each record: exactly (t - w, t]."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

DECISIONS = ("allow", "review", "block")
# Rule, key fields, window in ms, aggregate, whether a figure holds; as bench.workload.R5 says it.
RULES: tuple[tuple[str, tuple[str, ...], int, str], ...] = (
    ("account_count", ("account_id",), 60_000, "count"),
    ("account_sum", ("account_id",), 600_000, "sum"),
    ("merchant_count", ("merchant_id",), 10_000, "count"),
    ("pair_sum", ("account_id", "merchant_id"), 1_000_000, "sum"),
    ("cash_average", ("account_id",), 300_000, "avg"),
)


def holds(rule: str, value: float) -> bool:
    """Whether the rule's figure is beyond its threshold."""
    match rule:
        case "account_count":
            return value >= 10
        case "account_sum":
            return value > 200_000
        case "merchant_count":
            return value >= 25
        case "pair_sum":
            return value > 100_000
        case _:
            return value > 50_000


def decided(hits: int) -> str:
    """The policy: two rules block, one requires a review."""
    return DECISIONS[min(hits, 2)]


def decisions(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """Of each record, those before it in this order having come before it."""
    met: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    found = []
    for record in records:
        hits = 0
        for rule, fields, window_ms, aggregate in RULES:
            if aggregate == "avg" and record["payment_type"] != "CSH":
                continue
            at_ms, key = record["event_time"], (rule, *(record[field] for field in fields))
            met[key].append((at_ms, record["amount_cents"]))
            amounts = [amount for each_ms, amount in met[key] if at_ms - window_ms < each_ms <= at_ms]
            value = len(amounts) if aggregate == "count" else sum(amounts)
            hits += holds(rule, value / len(amounts) if aggregate == "avg" else value)
        found.append(decided(hits))
    return found
