"""``/rules``: which rules there are, who owns them, what they bring."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from crossline.basics.texts.problems import one_of, shown
from crossline.rule_registry.events import RuleEvent
from crossline.serve.console.api_calls import segment
from crossline.serve.console.layout.numbers import number
from crossline.serve.console.pages.rules.context import RuleRow, RulesPage
from crossline.serve.console.pages.rules.health import RuleFigures, doing_of
from crossline.serve.console.pages.rules.hits import DAYS, daily
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import invalid
from crossline.serve.http.reads.rules import read_rules

STATUSES = ("draft", "shadow", "active", "paused", "retired")
SORTS = {
    "name": lambda row: row.rule_id,
    "hits": lambda row: (-sum(row.days), row.rule_id),
    "changed": lambda row: (row.changed is None, "" if row.changed is None else _later(row.changed.iso), row.rule_id),
    "owner": lambda row: (row.owner or "\U0010ffff", row.rule_id),
}
_CHANGES = ("published", "status_changed", "tripped")
WHY_NOT = "To write rules needs the scope rules:draft, which {} has not."


def _later(iso: str) -> str:
    """A text that sorts the later instant first."""
    return "".join(chr(0x10FFFF - ord(letter)) for letter in iso)


async def view(asked: PageRequest) -> RulesPage:
    """The catalogue."""
    return await asyncio.to_thread(_page, asked, await doing_of(asked))


def _page(asked: PageRequest, known: Mapping[str, RuleFigures]) -> RulesPage:
    status, text, sort = asked.query.get("status", ""), asked.query.get("q", "")[:200], asked.query.get("sort", "name")
    if status not in {"", *STATUSES}:
        raise invalid("?status", shown(status), one_of(STATUSES))
    if sort not in SORTS:
        raise invalid("?sort", shown(sort), one_of(SORTS))
    rows, events, refused = read_rules(asked.parts.deps.config)
    current = _current(rows)
    kept = [each for each in current if status in {"", each["status"]} and _has(each, text)]
    counted = daily(asked, [(each["rule_id"], kind_of(each["status"])) for each in kept], known)
    made = [_row(asked, each, rows, events, counted.get(each["rule_id"], (0,) * DAYS), known) for each in kept]
    return RulesPage(
        shell=asked.shell("Rules", scripts=("js/predictions.js",)),
        rows=tuple(sorted(made, key=SORTS[sort])),  # type: ignore[arg-type]
        total=len(current),
        refused=tuple(sorted(refused.items())),
        statuses=STATUSES,
        status=status,
        text=text,
        sort=sort,
        filters=bool(status) + bool(text),
        why_not="" if asked.allows("rules:draft") else WHY_NOT.format(asked.who.name),
    )


def kind_of(status: str) -> str:
    """Of what kind a rule's alerts are."""
    return "shadow" if status == "shadow" else "alert"


def _current(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each rule the version in force; where none is, the last."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.get(row["rule_id"])
        if known is None or known["status"] == "draft" or row["status"] != "draft":
            found[row["rule_id"]] = row
    return list(found.values())


def _has(row: dict[str, Any], text: str) -> bool:
    """Whether a text stands in its name, its owner or its sentence."""
    where = (row["rule_id"], row["body"].get("owner") or "", row["body"].get("description") or "", row["rule_type"])
    return text.casefold() in " ".join(where).casefold()


def points_of(days: Sequence[int]) -> tuple[float, ...]:
    """From 0 to 1 of the most."""
    most = max(1, *days)
    return tuple(round(each / most, 3) for each in days)


def _row(
    asked: PageRequest,
    row: dict[str, Any],
    rows: Sequence[dict[str, Any]],
    events: Sequence[RuleEvent],
    days: tuple[int, ...],
    known: Mapping[str, RuleFigures],
) -> RuleRow:
    rule_id = row["rule_id"]
    changed = [each.at_ms for each in events if each.rule_id == rule_id and each.event in _CHANGES]
    waits = [each["version"] for each in rows if each["rule_id"] == rule_id and each["version"] > row["version"]]
    mine = known.get(rule_id, RuleFigures())
    return RuleRow(
        rule_id=rule_id,
        address=f"/rules/{segment(rule_id)}",
        rule_type=row["rule_type"],
        severity="low" if row["severity"] == "info" else row["severity"],
        status=row["status"],
        version=row["version"],
        owner=row["body"].get("owner") or "",
        days=days,
        points=points_of(days),
        per_day=number(round(sum(days) / len(days), 1)),
        precision=mine.precision,
        money=mine.money,
        cost=mine.cost,
        changed=asked.times.moment(max(changed)) if changed else None,
        waits=f"version {max(waits)} waits" if waits else "",
        broken="; ".join(caption for caption, beyond in mine.held if beyond),
    )
