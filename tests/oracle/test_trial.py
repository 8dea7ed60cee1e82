"""What a trial says of a record, over any rules and records: it fired where the twin says so, with its figure."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.trial import as_if_active, verdicts
from crossline.basics.conditions.lists import named_lists
from crossline.evaluate.bounds import Bounds
from crossline.rules.rule_reader import load_rules_text

from .fastpath import stream_spec
from .naive import naive_detect, running_max_ingest
from .strategies import LISTS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import DEEP, with_ingest

EVERY = {"emit": "every", "cooldown": "0ms"}
PROBES: dict[str, Body] = {
    "velocity": {**EVERY, "operator": ">=", "aggregation_threshold": -sys.float_info.max},
    "formula": {**EVERY, "probe": True},
    "dormancy": {**EVERY, "probe": True},
    **{key: {"probe": True, "cooldown": "0ms"} for key in ("sequence", "absence")},
    "threshold": {},
    "list": {},
}


def newest(rules: list[Body]) -> dict[str, Body]:
    """As the trial takes them: the last body of the highest version, active from the beginning."""
    found: dict[str, Body] = {}
    for body in rules:
        if body["rule_id"] not in found or body["version"] >= found[body["rule_id"]]["version"]:
            found[body["rule_id"]] = {k: v for k, v in body.items() if k not in {"status", "effective_from"}}
    return found


def hits_at(rules: list[Body], made: list[Record], record_id: str) -> dict[str, Any]:
    """By rule, the twin's value at the first record of that id."""
    place = next(n for n, record in enumerate(made) if record["_id"] == record_id)
    return {hit.rule_id: hit.value for hit in naive_detect(rules, made, lists=LISTS).hits if hit.position == place}


def digits(value: Any) -> str:
    """Numbers as text, of fifteen digits, which is what is promised of a standard deviation; zero is one number."""
    return "None" if value is None else f"{float(value) + 0.0:.15g}"


@settings(
    max_examples=1000 if DEEP else 15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data(), rule_sets(max_rules=3), records(), st.booleans())
def test_it_says_what_the_twin_says(
    data: st.DataObject, rules: list[Body], made: list[Record], ingest_column: bool
) -> None:
    if not made:
        return
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    record_id = data.draw(st.sampled_from([record["_id"] for record in made]))
    bodies = list(newest(rules).values())
    spec = stream_spec(ingest_column=ingest_column)
    loaded = [each.rule for each in load_rules_text(orjson.dumps(rules).decode(), "rules.yaml", {STREAM: spec}, LISTS)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "in.jsonl"
        path.write_bytes(b"".join(orjson.dumps(wire_record(record)) + b"\n" for record in made))
        history = RecordedInput({STREAM: spec}, {STREAM: [str(path)]})
        _, found = verdicts(
            BacktestSpec(as_if_active(loaded), history, named_lists(LISTS), bounds=Bounds(0)), Path(folder), record_id
        )
    probes = [{**body, **PROBES[body["rule_type"]]} for body in bodies]
    fired, figures = hits_at(bodies, made, record_id), hits_at(probes, made, record_id)
    assert {each.rule_id: each.fired for each in found} == {
        body["rule_id"]: body["rule_id"] in fired for body in bodies
    }
    for each in found:
        assert each.why
        if each.line is not None:
            assert digits(each.value) == digits(figures.get(each.rule_id))
