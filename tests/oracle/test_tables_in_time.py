"""Tables that change while records come: what a record was joined with is a fact of its ingest time.

Rules read fields of tables wherever they may read fields; contents change at any instants; records come in disorder, in
any batches, chunks, logs and shards; states are lost, pipelines stopped and killed, rules published in between: one
answer, that of the naive twin, which is given the records with the rows that it looked up one by one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .fastpath import FastPath, alert_values, plan_of, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import naive_detect, running_max_ingest
from .strategies import FIELDS, LISTS, START_MS, STREAM, Body, Record, records, rule_sets, wire_record
from .tables import Content, NaiveTable, joins_of, logged, store_in, with_fields
from .test_detect_equals_naive import (
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
from .test_lists_in_time import INSTANTS
from .test_publications import _go_on, lives, outcome
from .test_runners import in_pool, in_this_one, split

TABLES: dict[str, Any] = {
    "profile": {"key": {"account": "id"}, "fields": {"kind": "string?", "amount": "integer?", "flag": "boolean?"}},
    "spot": {
        "key": {"device": "device", "place.city": "city"},
        "fields": {"device": "integer", "price": "number?"},
        "valid_from": "since",
    },
}
# Fields of the record that rules read from a table instead.
MOVED = {"kind": "profile", "amount": "profile", "flag": "profile", "device": "spot", "price": "spot"}


def moved(value: Any) -> Any:
    """A rule that reads fields of tables, but for the text of its formula."""
    if isinstance(value, dict):
        return {
            name: each if name in {"when", "value"} and isinstance(each, str) else moved(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [moved(each) for each in value]
    return f"{MOVED[value]}.{value}" if isinstance(value, str) and value in MOVED else value


def enriched_spec(*, ingest_column: bool) -> StreamSpec:
    return StreamSpec.model_validate({**stream_spec(ingest_column=ingest_column).model_dump(), "enrich": TABLES})


def _row(**columns: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(columns)


def _of(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([*FIELDS[name], None])


ACCOUNTS = sorted(set(FIELDS["account"]))
PROFILES = st.lists(
    _row(id=st.sampled_from(ACCOUNTS), kind=_of("kind"), amount=_of("amount"), flag=_of("flag")),
    max_size=3,
    unique_by=lambda row: row["id"],
)
SPOTS = st.lists(
    _row(
        device=st.sampled_from(FIELDS["device"]),
        city=st.sampled_from(["Rome", "Oslo"]),
        price=_of("price"),
        since=st.none() | INSTANTS,
    ),
    max_size=6,
    unique_by=lambda row: (row["device"], row["city"], row["since"]),
)
ROWS = {"profile": PROFILES, "spot": SPOTS}


@st.composite
def tables(draw: st.DrawFn, later: int = 4) -> list[NaiveTable]:
    """Tables in several contents; of some the instant is before that of the one before."""
    return [
        NaiveTable(
            name,
            TABLES[name]["key"],
            list(TABLES[name]["fields"]),
            TABLES[name].get("valid_from"),
            [Content(None, draw(rows)), *draw(st.lists(st.builds(Content, INSTANTS, rows), max_size=later))],
        )
        for name, rows in ROWS.items()
    ]


MOVED_RULES = rule_sets(3).map(moved)


def missed_by_twin(path: FastPath, made: Sequence[Record], mine: Sequence[NaiveTable]) -> dict[str, int]:
    """Of the tables that rules read, records without a row."""
    return {
        each.name: sum(each.row(record, record["_ingest_ms"]) is None for record in made)
        for each in mine
        if each.name in path.plans[0].tables and made
    }


@settings(many, max_examples=EXAMPLES // 8)
@given(st.data(), MOVED_RULES, records(), st.booleans(), st.sampled_from(DEFAULTS), tables())
def test_one_log(
    data: st.DataObject,
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    defaults: dict[str, str],
    mine: list[NaiveTable],
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    shape = data.draw(shapes(len(made)))
    spec = enriched_spec(ingest_column=ingest_column)
    path = FastPath.of(plan_of(rules, spec, defaults), shape.shards)
    path.joins = joins_of(spec, STREAM, mine)
    run_whole(path, shape, made, ["log"] * len(made), data.draw(st.integers(1, 3)))
    check(path, rules, naive_detect(rules, with_fields(made, mine), defaults=defaults, lists=LISTS), made)
    assert path.missed == missed_by_twin(path, made, mine)


@settings(many, max_examples=EXAMPLES // 10)
@given(st.data(), MOVED_RULES, records(), st.booleans(), st.integers(1, 3), tables())
def test_several_logs(
    data: st.DataObject,
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    pieces: int,
    mine: list[NaiveTable],
) -> None:
    logs = data.draw(st.lists(st.sampled_from("abc"), min_size=len(made), max_size=len(made)))
    if not ingest_column:
        made = with_ingest(made, running_max_per_log(made, logs))
    order = sorted(range(len(made)), key=lambda place: (made[place]["_ingest_ms"], logs[place], place))
    made, logs = [made[place] for place in order], [logs[place] for place in order]
    shape = at_instants(data.draw(shapes(len(made))), made)
    spec = enriched_spec(ingest_column=ingest_column)
    path = FastPath.of(plan_of(rules, spec, {}), shape.shards)
    path.joins = joins_of(spec, STREAM, mine)
    run_whole(path, shape, made, logs, pieces)
    check(path, rules, naive_detect(rules, with_fields(made, mine), lists=LISTS), made)
    assert path.missed == missed_by_twin(path, made, mine)


@settings(
    max_examples=200 if DEEP else 2,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(MOVED_RULES, records(), st.booleans(), st.integers(1, 3), st.sampled_from([1, 300, 2_000]), tables())
def test_backtests(
    rules: list[Body],
    made: list[Record],
    ingest_column: bool,
    processes: int,
    batch_bytes: int,
    mine: list[NaiveTable],
) -> None:
    """By processes and by one, whose plan snapshot travels as JSON, and whose tables lie in files."""
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = enriched_spec(ingest_column=ingest_column)
    loaded = load_rules_text(json.dumps(rules), "rules.yaml", {STREAM: spec}, LISTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = split([orjson.dumps(wire_record(record)) + b"\n" for record in made], folder, 2)
        history = RecordedInput({STREAM: spec}, {STREAM: [str(path) for path in paths]})
        rule_set = RuleSet.from_rules(item.rule for item in loaded)
        judged = BacktestSpec(rule_set, history, named_lists(LISTS), Defaults(), Bounds(0))
        judged = replace(judged, tables=logged(mine, spec, STREAM, store_in(folder, mine, spec)).whole())
        pool = in_pool(judged, folder, processes, batch_bytes)
        one = in_this_one(judged, folder, processes, batch_bytes)
    rough = {body["rule_id"] for body in rules if body.get("aggregation_type") == "stddev"}
    wanted = twin_outcome(naive_detect(rules, with_fields(made, mine), lists=LISTS), made)[0]
    for found in (pool, one):
        plain = [alert_values(alert) for alert in found]
        assert sorted(each for each in plain if each[0] not in rough) == [
            each for each in wanted if each[0] not in rough
        ]
        assert len(plain) == len(wanted)


@st.composite
def changing_lives(draw: st.DrawFn, size: int) -> list[tuple[str, Any]]:
    """Lives as those of rules, in which tables change too; all rules read tables."""
    ops: list[tuple[str, Any]] = []
    for happens, what in draw(lives(size)):
        if draw(st.integers(0, 2)) == 0:
            name = draw(st.sampled_from(list(ROWS)))
            ops.append(("tables", {name: draw(ROWS[name])}))
        if happens in {"batch", "killed", "uncommitted"}:
            count, pieces, held = what
            ops.append((happens, (count, pieces, held and moved(held))))
        else:
            ops.append((happens, moved(what) if isinstance(what, dict) else what))
    return ops


@settings(many, max_examples=EXAMPLES // 28)
@given(st.data(), records(30), st.booleans(), st.sampled_from([0, 500, 5000]), tables(0))
def test_any_life_reports_what_its_logs_say(
    data: st.DataObject, made: list[Record], ingest_column: bool, lag_ms: int, mine: list[NaiveTable]
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = enriched_spec(ingest_column=ingest_column)
    ops = data.draw(changing_lives(len(made)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = store_in(folder, mine, spec)
        feed = Feed(tables=mine, log_tables=partial(logged, spec=spec, stream=STREAM, store=store))
        feed.prune = store.prune
        life = Life(folder, spec, Defaults(), data.draw(st.integers(1, 3)), lag_ms, feed)
        life.start()
        at = 0
        for op in ops:
            if op[0] == "tables":
                feed.waiting_tables = {**feed.waiting_tables, **op[1]}
                life.side_input()
                life.between()
            else:
                _go_on(life, [op], made, at)
                at += op[1][0] if op[0] in {"batch", "killed", "uncommitted"} else 0
        rules, found, changed = feed.logged, outcome(life), feed.tables
    given_fields = with_fields(made, changed)
    assert found == twin_outcome(naive_detect(rules, given_fields, lists=LISTS), made)
    backtest = FastPath.of(plan_of(rules, spec, {}), 1, Bounds(lag_ms))
    backtest.joins = joins_of(spec, STREAM, changed)
    run_whole(backtest, Shape(1, [(0, len(made))], []), made, ["log"] * len(made))
    check(backtest, rules, naive_detect(rules, given_fields, lists=LISTS), made)


def _paid(number: int, at_s: float, account: str = "a1") -> Record:
    at_ms = START_MS + round(at_s * 1000)
    return {"_id": f"t{number}", "_event_ms": at_ms, "_ingest_ms": at_ms, "account": account, "amount": 10}


def _batch(life: Life, made: Sequence[Record]) -> None:
    life.take_in(made, 1)
    life.deliver(life.judge(life.plan_batch()))
    life.commit()
    life.between()


GOLD: Body = {
    "rule_id": "gold",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "profile.kind",
    "aggregation_type": "sum",
    "aggregation_field": "profile.amount",
    "aggregation_threshold": 1,
    "window": "1h",
    "emit": "every",
    "conditions": [{"field": "profile.flag", "operator": "==", "value": True}],
}


def _gold_life(folder: Path, lag_ms: int = 0) -> tuple[Life, Feed]:
    row = {"id": "a1", "kind": "x", "amount": 1, "flag": True}
    mine = [NaiveTable("profile", TABLES["profile"]["key"], ["kind", "amount", "flag"], None, [Content(None, [row])])]
    spec = enriched_spec(ingest_column=True)
    spec = StreamSpec.model_validate({**spec.model_dump(), "enrich": {"profile": TABLES["profile"]}})
    store = store_in(folder, mine, spec)
    feed = Feed(tables=mine, log_tables=partial(logged, spec=spec, stream=STREAM, store=store))
    feed.prune = store.prune
    feed.waiting.append(GOLD)
    life = Life(folder, spec, Defaults(), 2, lag_ms, feed)
    life.start()
    life.side_input()
    life.between()
    return life, feed


def test_a_window_has_what_records_were_when_they_came(tmp_path: Path) -> None:
    """Worked by hand: a1 counts 1, then 10 under the same key, then 100 under another one."""
    made = [_paid(number, number) for number in range(6)]
    life, feed = _gold_life(tmp_path)
    _batch(life, made[:2])
    for number, (kind, amount) in enumerate([("x", 10), ("y", 100)]):
        feed.waiting_tables = {"profile": [{"id": "a1", "kind": kind, "amount": amount, "flag": True}]}
        life.side_input()
        _batch(life, made[2 * number + 2 : 2 * number + 4])
    delivered = [(alert["record_id"], alert["key"], alert["value"]) for alert in life.alerts]
    x, y = {"profile.kind": "x"}, {"profile.kind": "y"}
    assert delivered == [("t0", x, 1), ("t1", x, 2), ("t2", x, 12), ("t3", x, 22), ("t4", y, 100), ("t5", y, 200)]


def test_contents_that_no_record_can_meet_leave_the_snapshot_and_the_folder(tmp_path: Path) -> None:
    made = [_paid(number, 10 * number) for number in range(8)]
    life, feed = _gold_life(tmp_path)
    for number in range(4):
        feed.waiting_tables = {"profile": [{"id": "a1", "kind": "x", "amount": number, "flag": True}]}
        life.side_input()
        _batch(life, made[2 * number : 2 * number + 2])
        _batch(life, [])
    assert len(feed.tables[0].contents) == 5
    (there,) = life.changes.file.current().tables.values()
    assert len(there) == 1
    assert [str(path) for path in (tmp_path / "sorted").glob("*.arrow")] == [there[0].path]
