"""The examples of docs/semantics.md: each table is judged by the engine and by the naive twin."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.enrich.join import joined
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from oracle.composed import composed_detect
from oracle.tables import Content, NaiveTable, joins_of, with_fields

from .pages import ROOT

PAGE = (ROOT / "docs" / "semantics.md").read_text()
BASE_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STREAM = """\
schema_version: 1
streams:
  payments:
    id: payment_id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {payment_id: string, account_id: string, merchant_id: string?, amount: integer?, at: integer, came: integer}
"""
PROFILE: dict[str, Any] = {"key": {"account_id": "account_id"}, "fields": {"country": "string", "large": "integer?"}}
PLAIN = load_streams(STREAM, "stream.yaml")["payments"]
SPEC = StreamSpec.model_validate({**PLAIN.model_dump(), "enrich": {"profile": PROFILE}})
_TABLE = re.compile(r"^\| from \| account_id \|.*\n(?P<rows>(?:^\|.*\n)+)", re.MULTILINE)
_BLOCK = re.compile(r"```yaml\n(?P<rules>(?:.*\n)+?)```|(?P<table>^\| payment_id .*\n(?:^\|.*\n)+)", re.MULTILINE)

Row = dict[str, str]
PROBED = {"sequence", "absence"}  # by rules that report how far each record came


@dataclass(frozen=True)
class Example:
    rules: str
    rows: list[Row]

    @property
    def bodies(self) -> list[dict[str, Any]]:
        data = yaml.safe_load(self.rules)
        return data if isinstance(data, list) else [data]


def examples() -> list[Example]:
    found, rules = [], ""
    for match in _BLOCK.finditer(PAGE):
        if match["rules"] is not None:
            rules = match["rules"]
            continue
        head, _, *lines = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in match["table"].splitlines()
        ]
        found.append(Example(rules, [dict(zip(head, cells, strict=True)) for cells in lines]))
    return found


def ms(text: str) -> int:
    minutes, seconds = text.split(":")
    return BASE_MS + 60_000 * int(minutes) + 1000 * int(seconds)


def profile() -> NaiveTable:
    """The table of the page, with its contents."""
    found = _TABLE.search(PAGE)
    assert found is not None
    contents: dict[str, list[dict[str, Any]]] = {}
    for line in found["rows"].splitlines()[1:]:
        since, account, country, large = (cell.strip() for cell in line.strip("|").split("|"))
        contents.setdefault(since, []).append({"account_id": account, "country": country, "large": int(large)})
    standing = [Content(ms(since) if since else None, rows) for since, rows in contents.items()]
    return NaiveTable("profile", PROFILE["key"], list(PROFILE["fields"]), None, standing)


def record(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {name: row[name] for name in ("payment_id", "account_id", "merchant_id") if name in row}
    if "amount" in row:
        fields["amount"] = int(row["amount"])
    return {**fields, "at": ms(row["at"]), "came": ms(row.get("came", row["at"]))}


def always(body: dict[str, Any]) -> dict[str, Any]:
    """The rule as one that emits its figure at every record that it judges."""
    if body["rule_type"] == "threshold":
        return body
    if body["rule_type"] == "formula":
        return {**body, "emit": "every", "conditions": None, "when": "seen >= 0", "probe": True}
    if body["rule_type"] in PROBED:
        return {**body, "probe": True}
    plain = {name: value for name, value in body.items() if name != "cooldown"}
    return {**plain, "emit": "every", "operator": ">=", "aggregation_threshold": -1_000_000}


def by_engine(bodies: list[dict[str, Any]], rows: list[Row]) -> tuple[list[Any], list[int], list[int]]:
    """Hits (row, rule, version, value), and the rows of duplicates and of late records."""
    written = [{name: value for name, value in body.items() if name != "probe"} for body in bodies]  # the twin's word
    text = json.dumps(written, default=lambda value: value.isoformat())
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(text, "semantics", {"payments": SPEC}))
    probing = int(any(body["rule_type"] in PROBED and "probe" in body for body in bodies))
    plans = list(compile_all(rules, {"payments": SPEC}, Defaults(), probing=probing).values())
    lines = [json.dumps(record(row)).encode() + b"\n" for row in rows]
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]
    decoded = decode_lines(make_layout("payments", SPEC), b"".join(lines), "log", 0)
    assert not decoded.dead
    joins = joins_of(SPEC, "payments", [profile()]) if plans[0].tables else []
    found, _ = detect(plans, new_state(2), joined(SPEC, joins, decoded.records))
    place = {(row["payment_id"], ms(row["at"])): number for number, row in enumerate(rows)}
    hits = [
        (place[a["record_id"], instant_ms(a["event_time"])], a["rule_id"], a["rule_version"], a["value"])
        for a in found.alerts
    ]
    duplicates, late = (sorted(starts.index(p.offset) for p in each) for each in (found.duplicates, found.late))
    return sorted(hits), duplicates, late


def instant_ms(text: str) -> int:
    return ms(text[14:19])


def by_twin(bodies: list[dict[str, Any]], rows: list[Row]) -> tuple[list[Any], list[int], list[int]]:
    records = [{**r, "_id": r["payment_id"], "_event_ms": r["at"], "_ingest_ms": r["came"]} for r in map(record, rows)]
    found = composed_detect(bodies, with_fields(records, [profile()]))
    hits = [(hit.position, hit.rule_id, hit.version, hit.value) for hit in found.hits]
    return sorted(hits), found.duplicates, found.late


def figures_of(example: Example) -> list[Any]:
    names = [body["rule_id"] for body in example.bodies if body["rule_type"] in {"velocity", "formula", *PROBED}]
    lines = [
        (number, name, int(row[name])) for number, row in enumerate(example.rows) for name in names if row.get(name)
    ]
    return sorted(lines)


def alerts_of(example: Example) -> list[Any]:
    """(row, version) of the alerts: ``yes`` is version 1."""
    lines = [(number, row.get("alert", "")) for number, row in enumerate(example.rows)]
    return [(number, 1 if found == "yes" else int(found.removeprefix("version "))) for number, found in lines if found]


def fates_of(example: Example, fate: str) -> list[int]:
    return [number for number, row in enumerate(example.rows) if row.get("fate") == fate]


@pytest.mark.parametrize("judged_by", [by_engine, by_twin])
@pytest.mark.parametrize("example", examples(), ids=lambda each: each.bodies[0]["rule_id"])
def test_the_example_is_true(example: Example, judged_by: Any) -> None:
    hits, duplicates, late = judged_by(example.bodies, example.rows)
    inner = {body["rule_id"] for body in example.bodies if body.get("emit_to_sink") is False}
    assert [(number, version) for number, name, version, _ in hits if name not in inner] == alerts_of(example)
    assert duplicates == fates_of(example, "dead letter")
    assert late == fates_of(example, "late record")
    seen, _, _ = judged_by([always(body) for body in example.bodies], example.rows)
    assert [(number, name, value) for number, name, _, value in seen if value is not None] == figures_of(example)


def test_there_are_examples() -> None:
    assert len(examples()) >= 8
