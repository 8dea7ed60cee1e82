"""Lists that change, and entries that end, while records come: what judged a record is a fact of its ingest time.

Changes at any instants, records in disorder, cuts into batches, chunks and shards, states that are lost, pipelines
that are stopped and killed, backtests: one answer, that of the naive twin.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.conditions.lists import Lists
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .conditions import Timed
from .fastpath import FastPath, alert_values, plan_of, stream_spec, twin_outcome
from .living import Content, Entries, Feed, Life, _log_of
from .naive import naive_detect, running_max_ingest
from .strategies import START_MS, STREAM, Body, Record, records, rule_sets, wire_record
from .test_detect_equals_naive import (
    BUSY,
    DEEP,
    DEFAULTS,
    EXAMPLES,
    Shape,
    at_instants,
    check,
    many,
    running_max_per_log,
    shapes,
    with_ingest,
)
from .test_detect_equals_naive import run as run_whole
from .test_publications import _go_on, lives, outcome
from .test_runners import in_pool, in_this_one, split

COUNT: Body = {**BUSY, "aggregation_type": "count", "group_by": "device", "emit": "every", "aggregation_threshold": 1}
SEEN = [{"field": "account", "operator": "in", "value": {"list": "seen"}}]
SUM = {"aggregation_type": "sum", "aggregation_field": "amount"}
POOLS: dict[str, list[Any]] = {
    "cash": ["CSH", "ATM", "POS", "été"],
    "mixed": [0, 1, 3, 2.5, 0.1, True, False, "1", 2**53 + 1],
}
FIELDS = {"kind": "cash", "amount": "mixed", "price": "mixed", "flag": "mixed", "device": "mixed"}
LEAF = st.builds(
    lambda field, operator: {"field": field, "operator": operator, "value": {"list": FIELDS[field]}},
    st.sampled_from(["kind", "kind", *FIELDS]),
    st.sampled_from(["in", "in", "not_in"]),
)
PLAIN = st.sampled_from([{"field": "amount", "operator": ">=", "value": 1}, {"field": "flag", "operator": "exists"}])
LISTED = st.recursive(
    st.one_of(LEAF, LEAF, PLAIN),
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=2, max_size=2)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=2, max_size=2)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=3,
)
# Among the ingest times of records, which begin at START_MS and go on by steps of some of these.
INSTANTS = st.builds(lambda steps, more: START_MS + 500 * steps + more, st.integers(-1, 40), st.sampled_from([0, 0, 1]))


@st.composite
def entries(draw: st.DrawFn, name: str) -> Entries:
    ends = st.none() | st.none() | INSTANTS
    return draw(st.lists(st.tuples(st.sampled_from(POOLS[name]), ends), max_size=4))


@st.composite
def histories(draw: st.DrawFn) -> dict[str, list[Content]]:
    """Lists in several contents; of some the instant is before that of the one before."""
    lists: dict[str, list[Content]] = {}
    for name in POOLS:
        later = draw(st.lists(st.tuples(INSTANTS, entries(name)), max_size=4))
        lists[name] = [(-math.inf, draw(entries(name))), *later]
    return lists


@st.composite
def listed_rules(draw: st.DrawFn) -> list[Body]:
    """Rule sets whose conditions read lists, most of them."""
    bodies = draw(rule_sets(3))
    by_version = {
        (body["rule_id"], body["version"]): draw(st.lists(LISTED, min_size=1, max_size=2))
        for body in bodies
        if body["rule_type"] == "threshold" or draw(st.integers(0, 3))
    }
    for body in bodies:
        if (body["rule_id"], body["version"]) in by_version:
            body["conditions"] = by_version[body["rule_id"], body["version"]]
    return bodies


def twins(lists: Mapping[str, Sequence[Content]]) -> dict[str, Timed]:
    return {name: Timed(contents) for name, contents in lists.items()}


def whole(lists: Mapping[str, Sequence[Content]]) -> Lists:
    return _log_of(lists).whole(lists)


@settings(many, max_examples=EXAMPLES // 2)
@given(st.data(), listed_rules(), records(), st.booleans(), st.sampled_from(DEFAULTS), histories())
def test_one_log(
    data: st.DataObject,
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    defaults: dict[str, str],
    lists: dict[str, list[Content]],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    shape = data.draw(shapes(len(made)))
    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=ingest_column), defaults, POOLS), shape.shards)
    path.lists = whole(lists)
    run_whole(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 3)))
    check(path, rules, naive_detect(rules, made, defaults=defaults, lists=twins(lists)), made)


@settings(many, max_examples=EXAMPLES // 2)
@given(st.data(), listed_rules(), records(), st.booleans(), st.integers(1, 3), histories())
def test_several_logs(
    data: st.DataObject,
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    pieces: int,
    lists: dict[str, list[Content]],
) -> None:
    logs = data.draw(st.lists(st.sampled_from("abc"), min_size=len(made), max_size=len(made)))
    if not ingest_column:
        made = with_ingest(made, running_max_per_log(made, logs))
    order = sorted(range(len(made)), key=lambda place: (made[place]["_ingest_ms"], logs[place], place))
    made, logs = [made[place] for place in order], [logs[place] for place in order]
    shape = at_instants(data.draw(shapes(len(made))), made)
    path = FastPath.of(plan_of(rules, stream_spec(ingest_column=ingest_column), {}, POOLS), shape.shards)
    path.lists = whole(lists)
    run_whole(path, shape, made, logs, pieces)
    check(path, rules, naive_detect(rules, made, lists=twins(lists)), made)


@settings(
    max_examples=400 if DEEP else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(listed_rules(), records(), st.booleans(), st.integers(1, 3), st.sampled_from([1, 300, 2_000]), histories())
def test_backtests(
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    processes: int,
    batch_bytes: int,
    lists: dict[str, list[Content]],
) -> None:
    """By processes and by one, whose plan snapshot travels as JSON."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = stream_spec(ingest_column=ingest_column)
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", {STREAM: spec}, POOLS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 2)
        history = RecordedInput({STREAM: spec}, {STREAM: [str(path) for path in paths]})
        judged = BacktestSpec(
            RuleSet.from_rules(item.rule for item in loaded), history, whole(lists), Defaults(), Bounds(0)
        )
        pool = in_pool(judged, folder, processes, batch_bytes)
        one = in_this_one(judged, folder, processes, batch_bytes)
    rough = {body["rule_id"] for body in rules if body.get("aggregation_type") == "stddev"}
    wanted = twin_outcome(naive_detect(rules, made, lists=twins(lists)), made)[0]
    for found in (pool, one):
        plain = [alert_values(alert) for alert in found]
        assert sorted(each for each in plain if each[0] not in rough) == [
            each for each in wanted if each[0] not in rough
        ]
        assert len(plain) == len(wanted)


def _mixed_up(seed: int) -> tuple[list[Record], list[Body], dict[str, list[Content]], list[tuple[int, int]]]:
    """Records of a few accounts, most of them out of order, rules that read two lists, and cuts."""
    chance = random.Random(seed)
    instants = [START_MS + 500 * step for step in range(60)]
    made = [
        {"_id": f"t{number}", "_event_ms": chance.choice(instants), "_ingest_ms": 0}
        | {
            "account": f"a{chance.randrange(2)}",
            "kind": chance.choice(POOLS["cash"]),
            "amount": chance.choice([1, 3, None]),
        }
        for number in range(40)
    ]
    lists: dict[str, list[Content]] = {}
    for name, pool in (("cash", POOLS["cash"]), ("mixed", [1, 3, True])):
        edges = [-math.inf, *sorted(chance.sample(instants, 6))]
        ends = [None, *instants]
        lists[name] = [(at, [(value, chance.choice(ends)) for value in pool if chance.random() < 0.5]) for at in edges]
    cash, amounts = (
        {"field": field, "operator": operator, "value": {"list": name}}
        for field, operator, name in (("kind", "in", "cash"), ("amount", chance.choice(["in", "not_in"]), "mixed"))
    )
    wide = {"window": "20s", "watermark_delay": "30s", "allowed_lateness": "60s", "emit": "every"}
    rules: list[Body] = [
        {**COUNT, **wide, "rule_id": "one", "group_by": "account", "conditions": [cash]},
        {**COUNT, **wide, "rule_id": "both", "group_by": "kind", "conditions": [{"any": [amounts, {"not": cash}]}]},
        {**COUNT, **wide, "rule_id": "sum", "group_by": "account", "conditions": [{"any": [amounts, cash]}], **SUM},
        {
            "rule_id": "each",
            "version": 1,
            "rule_type": "threshold",
            "source_topic": STREAM,
            "conditions": [cash, amounts],
        },
    ]
    edges = sorted(chance.sample(range(41), 6))
    return made, rules, lists, list(itertools.pairwise([0, *edges, 40]))


@pytest.mark.parametrize("several", [False, True])
def test_logs_without_ingest_times_in_great_disorder(several: bool) -> None:
    """Where the clock of a chunk is far behind that of its log, what a list held in between decides."""
    for seed in range(400 if DEEP else 24):
        made, rules, lists, batches = _mixed_up(seed)
        logs = ["ab"[seed % 2 and number % 2] if several else "log" for number in range(len(made))]
        made = with_ingest(made, running_max_per_log(made, logs))
        if several:
            order = sorted(range(len(made)), key=lambda place: (made[place]["_ingest_ms"], logs[place], place))
            made, logs = [made[place] for place in order], [logs[place] for place in order]
        shape = at_instants(Shape(1 + seed % 3, batches, [(2, 0), (4, 0)]), made)
        path = FastPath.of(plan_of(rules, stream_spec(ingest_column=False), {}, POOLS), shape.shards)
        path.lists = whole(lists)
        run_whole(path, shape, made, logs, 1 + seed % 4)
        check(path, rules, naive_detect(rules, made, lists=twins(lists)), made)


@st.composite
def changing_lives(draw: st.DrawFn, size: int) -> list[tuple[str, Any]]:
    """Lives as those of rules, in which lists change too; all rules read lists."""
    ops: list[tuple[str, Any]] = []
    conditions: dict[tuple[str, int], Any] = {}
    for happens, what in draw(lives(size)):
        body = what[2] if happens in {"batch", "killed", "uncommitted"} else what if isinstance(what, dict) else None
        if body is not None:
            name = (body["rule_id"], body["version"])
            if name not in conditions:
                conditions[name] = draw(st.lists(LISTED, min_size=1, max_size=2))
            body["conditions"] = conditions[name]
        if draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(list(POOLS)))
            ops.append(("lists", {name: draw(entries(name))}))
        ops.append((happens, what))
    return ops


@settings(many, max_examples=EXAMPLES // 3)
@given(st.data(), records(30), st.booleans(), st.sampled_from([0, 500, 5000]), histories())
def test_any_life_reports_what_its_logs_say(
    data: st.DataObject, made: list[Record], ingest_column: bool, lag_ms: int, lists: dict[str, list[Content]]
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = stream_spec(ingest_column=ingest_column)
    ops = data.draw(changing_lives(len(made)))
    first = {name: contents[:1] for name, contents in lists.items()}
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), spec, Defaults(), data.draw(st.integers(1, 3)), lag_ms, Feed(lists=first))
        life.start()
        at = 0
        for op in ops:
            if op[0] == "lists":
                life.feed.waiting_lists = {**life.feed.waiting_lists, **op[1]}
                life.side_input()
                life.between()
            else:
                _go_on(life, [op], made, at)
                at += op[1][0] if op[0] in {"batch", "killed", "uncommitted"} else 0
        logged, found, changed = life.feed.logged, outcome(life), life.feed.lists
    assert found == twin_outcome(naive_detect(logged, made, lists=twins(changed)), made)
    backtest = FastPath.of(plan_of(logged, spec, {}, POOLS), 1, Bounds(lag_ms))
    backtest.lists = whole(changed)
    run_whole(backtest, Shape(1, [(0, len(made))], []), made, ["log"] * len(made))
    check(backtest, logged, naive_detect(logged, made, lists=twins(changed)), made)


def _record(number: int, at_s: float) -> Record:
    at_ms = START_MS + round(at_s * 1000)
    return {"_id": f"t{number}", "_event_ms": at_ms, "_ingest_ms": at_ms, "account": f"a{number % 2}", "device": 1}


def _fed(folder: Path, made: Sequence[Record], contents: list[Content] | None = None) -> Life:
    lists = {"seen": contents or [(-math.inf, [("a0", None)])]}
    life = Life(folder, stream_spec(ingest_column=True), Defaults(), 2, 0, Feed(lists=lists))
    life.feed.waiting.append({**COUNT, "rule_id": "r0", "window": "1h", "conditions": SEEN})
    life.start()
    life.side_input()
    life.between()
    return life


def _batch(life: Life, made: Sequence[Record]) -> None:
    life.take_in(made, 1)
    life.deliver(life.judge(life.plan_batch()))
    life.commit()
    life.between()


def test_a_window_has_what_entered_by_the_content_of_then(tmp_path: Path) -> None:
    """Worked by hand: a0 is listed, then a1 beside it, then neither but for three seconds more, a0."""
    made = [_record(number, number) for number in range(12)]
    life = _fed(tmp_path, made)
    _batch(life, made[:4])  # t0 and t2 enter
    for number, content in enumerate([[("a0", None), ("a1", None)], [("a0", START_MS + 10_000)]]):
        life.feed.waiting_lists = {"seen": content}
        life.side_input()
        _batch(life, made[4 * number + 4 : 4 * number + 8])
    assert [(alert["record_id"], alert["value"]) for alert in life.alerts] == [
        ("t0", 1),
        ("t2", 2),
        *((f"t{number}", number - 1) for number in range(4, 8)),
        ("t8", 7),
    ]


def test_versions_that_no_record_can_meet_leave_the_snapshot(tmp_path: Path) -> None:
    made = [_record(number, 10 * number) for number in range(12)]
    life = _fed(tmp_path, made)
    for number in range(8):
        life.feed.waiting_lists = {"seen": [(f"a{number % 2}", None), ("a0", None), (f"b{number}", None)]}
        life.side_input()
        _batch(life, made[number : number + 1])
    (seen,) = life.changes._snapshot.lists.values()
    assert (seen.first, len(seen.changes)) == (8, 1)
    life.feed.waiting_lists = {"seen": []}
    life.side_input()
    life.between()
    (seen,) = life.changes._snapshot.lists.values()
    assert (seen.first, len(seen.changes)) == (8, 2), "a record of the instant reached would meet the one before"
    _batch(life, made[8:9])
    (seen,) = life.changes._snapshot.lists.values()
    assert (seen.first, len(seen.changes)) == (9, 1)
    assert len(life.feed.lists["seen"]) == 10, "the log has them all"


def test_a_rule_that_comes_later_meets_the_contents_that_left_the_snapshot(tmp_path: Path) -> None:
    """Its past is read by the log: what entered by a content that no record to come meets is in its windows."""
    made = [_record(number, 10 * number) for number in range(8)]
    life = _fed(tmp_path, made)
    _batch(life, made[:4])
    life.feed.waiting_lists = {"seen": []}
    life.side_input()
    _batch(life, made[4:5])
    _batch(life, made[5:6])
    life.feed.waiting_lists = {"seen": [("a0", None), ("a1", None)]}
    life.side_input()
    life.between()
    assert life.changes._snapshot.lists["seen"].first == 1, "the first content is gone"
    life.feed.waiting.append({**COUNT, "rule_id": "r1", "window": "2h", "conditions": SEEN})
    life.side_input()
    life.between()
    _batch(life, made[6:8])
    found = [(alert["record_id"], alert["value"]) for alert in life.alerts if alert["rule_id"] == "r1"]
    assert found == [("t6", 3), ("t7", 4)], "t0 and t2 entered"
    assert outcome(life) == twin_outcome(naive_detect(life.feed.logged, made, lists=life.feed.twin_lists()), made)


@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_a_log_without_ingest_times_reads_lists_at_the_running_maximum(pieces: int) -> None:
    """Worked by hand: what comes after t1 comes at 10 s or later, when a0 is off the list, and a1 on it."""
    contents: dict[str, list[Content]] = {"seen": [(-math.inf, [("a0", None)]), (START_MS + 8_000, [("a1", None)])]}
    at_s = [0, 10, 5, 7, 6, 12]
    made = [
        {**_record(number, at), "account": account}
        for number, (at, account) in enumerate(zip(at_s, "010011", strict=True))
    ]
    made = [{**record, "account": f"a{record['account']}"} for record in made]
    rule = {"rule_id": "r", "version": 1, "rule_type": "threshold", "source_topic": STREAM, "conditions": SEEN}
    path = FastPath.of(plan_of([rule], stream_spec(ingest_column=False), {}, contents), 2)
    path.lists = whole(contents)
    run_whole(path, Shape(2, [(0, 3), (3, 6)], []), made, ["log"] * 6, pieces)
    assert sorted(alert["record_id"] for alert in path.alerts) == ["t0", "t1", "t4", "t5"]
