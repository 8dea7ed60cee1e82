"""Fills gaps: judges the records of the lake by rules that were not live then, and keeps what they would have given.

The alerts are in the table ``filled_alerts``, and not in ``alerts``: nobody was alerted. A row in ``fills`` says which
span of which rule is filled. Both are appended once, however often a fill is repeated or killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.lake.catalogs.catalog import LakeAddress
from crossline.lake.gaps.report import RuleGap
from crossline.lake.tables.delivery_rows import alert_row, rows_table
from crossline.lake.tables.lake_table import LakeTable
from crossline.lake.tables.table_layouts import BATCH, CHECKPOINT, DELIVERED, FILLED_ALERTS, FILLS
from crossline.rules.ruleset import RuleSet, RuleVersion

_US = 1_000


@dataclass(frozen=True, slots=True)
class Filled:
    """A gap, and how many alerts the rule would have given in it."""

    gap: RuleGap
    alerts: int


def rules_to_fill(rules: RuleSet) -> RuleSet:
    """The live versions, each from the first record on: a rule that reads hits finds those of the rules that it reads.

    Args:
        rules: All versions with their intervals.
    """
    return replace(
        rules, versions=tuple(RuleVersion(each.rule, kind=each.kind) for each in rules.versions if each.endless)
    )


def keep_fills(
    lake: LakeAddress, gaps: Sequence[RuleGap], alerts: Iterable[Mapping[str, Any]], clock_us: int | None = None
) -> list[Filled]:
    """Append what a fill found to the tables.

    Args:
        lake: The lake.
        gaps: The gaps that were judged.
        alerts: All alerts of their span and rules; those outside of the gaps are left out.
        clock_us: Now, in microseconds of the epoch; None: by the machine's clock.
    """
    now_us = time.time_ns() // 1_000 if clock_us is None else clock_us
    mine: dict[RuleGap, list[dict[str, Any]]] = {gap: [] for gap in gaps}
    for gap, alert in _within(gaps, alerts):
        mine[gap].append({**alert_row(alert), **_common(gap, now_us)})
    filled, fills = LakeTable.ensure(lake, FILLED_ALERTS), LakeTable.ensure(lake, FILLS)
    for gap, rows in mine.items():
        name = _name(gap)
        filled.append(rows_table(FILLED_ALERTS, rows), name, 0)
        row = {
            "rule_id": gap.rule_id,
            "rule_version": gap.version,
            "stream": gap.stream,
            "from": gap.from_ms * _US,
            "to": gap.to_ms * _US,
            "alerts": len(rows),
            "filled_at": now_us,
            **_common(gap, now_us),
        }
        fills.append(rows_table(FILLS, [row]), name, 0)
    return [Filled(gap, len(rows)) for gap, rows in mine.items()]


def _within(
    gaps: Sequence[RuleGap], alerts: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[RuleGap, Mapping[str, Any]]]:
    by_rule: dict[str, list[RuleGap]] = {}
    for gap in gaps:
        by_rule.setdefault(gap.rule_id, []).append(gap)
    for alert in alerts:
        at_ms = parse_instant_ms(alert["ingest_time"])
        for gap in by_rule.get(alert["rule_id"], ()):
            if gap.from_ms <= at_ms < gap.to_ms:
                yield gap, alert


def _common(gap: RuleGap, now_us: int) -> dict[str, Any]:
    return {BATCH: 0, CHECKPOINT: _name(gap), DELIVERED: now_us}


def _name(gap: RuleGap) -> str:
    return f"fill:{gap.rule_id}:{gap.version}:{gap.stream}:{gap.from_ms}-{gap.to_ms}"
