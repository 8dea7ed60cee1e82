"""Rules that are published, paused and retired while records come, pipelines that are stopped and killed: one answer.

The output of a pipeline over its life is what the naive twin finds in the log of records by the log of rules. It is
also what a backtest, one compilation of all versions, finds.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.evaluate.bounds import Bounds
from crossline.evaluate.output import Position
from crossline.rules.base import Defaults, legal_moves
from crossline.runtime.snapshot.snapshot import SnapshotFile

from .fastpath import FastPath, alert_values, plan_of, stream_spec, twin_outcome
from .living import Feed, Life
from .naive import naive_detect, running_max_ingest
from .strategies import (
    LISTS,
    START_MS,
    STREAM,
    Body,
    Record,
    absence_body,
    formula_body,
    records,
    sequence_body,
    threshold_body,
    velocity_body,
)
from .test_detect_equals_naive import BUSY, EXAMPLES, Shape, check, many, with_ingest
from .test_detect_equals_naive import run as run_whole

AGGREGATES = ("count", "sum", "max", "distinct_count", "last")
SPREAD = {"watermark_delay": "1s", "allowed_lateness": "2s"}
Op = tuple[str, Any]
HAPPENS = ["batch", "batch", "publish", "publish", "restart", "lose", "killed", "uncommitted", "ahead"]


@st.composite
def lives(draw: st.DrawFn, size: int) -> list[Op]:
    """What happens, in order; batches take all ``size`` records."""
    ops: list[Op] = []
    bodies: dict[str, list[Body]] = {}
    left = size
    while left:
        happens = draw(st.sampled_from(HAPPENS))
        if happens in {"batch", "killed", "uncommitted"}:
            count = draw(st.integers(1, max(1, left // 2)))
            held = draw(_publication(bodies)) if draw(st.integers(0, 3)) == 0 else None
            ops.append((happens, (count, draw(st.integers(1, 2)), held)))
            left -= count
        elif happens in {"publish", "ahead"}:
            ops.append((happens, draw(_publication(bodies))))
        else:
            ops.append((happens, draw(st.integers(0, 2))))
    return ops


@st.composite
def _publication(draw: st.DrawFn, bodies: dict[str, list[Body]]) -> Body:
    """A new rule, a new version of one, or another status; ``bodies`` are those so far, by rule."""
    name = f"r{draw(st.integers(0, 3))}"
    mine = bodies.setdefault(name, [])
    moves = legal_moves(mine[-1].get("status", "active")) if mine else ()
    if moves and draw(st.booleans()):
        body = {**mine[-1], "status": draw(st.sampled_from(moves))}
    else:
        velocity = velocity_body(AGGREGATES)
        fresh = draw(st.one_of(velocity, velocity, threshold_body(), formula_body(), sequence_body(), absence_body()))
        body = {**fresh, "rule_id": name, "version": mine[-1]["version"] + 1 if mine else 1}
    mine.append(body)
    return body


def live(life: Life, ops: Sequence[Op], made: Sequence[Record]) -> None:
    """Lead ``life`` through ``ops`` from its start."""
    life.start()
    _go_on(life, ops, made, 0)


def _go_on(life: Life, ops: Sequence[Op], made: Sequence[Record], at: int) -> None:
    for happens, what in ops:
        if happens in {"batch", "killed", "uncommitted"}:
            count, pieces, held = what
            life.take_in(made[at : at + count], pieces)
            at += count
            chunks = life.plan_batch()
            reported = life.judge(chunks)
            if held is not None:
                life.feed.waiting.append(held)
                life.side_input()
            if happens == "killed":
                life.start()
                again = life.judge(chunks)
                assert _plain(again) == _plain(reported), "a batch that runs again has the same output"
                reported = again
            life.deliver(reported)
            if happens == "uncommitted":
                life.start()
                assert _plain(life.judge(chunks)) == _plain(reported), "what sinks have comes again as it was"
                life.deliver(([], [], []))
            life.commit()
            life.between()
        elif happens == "publish":
            life.feed.waiting.append(what)
            life.side_input()
            life.between()
        elif happens == "ahead":
            life.feed.waiting.append(what)
            life.read_ahead()
        elif happens == "restart":
            life.start()
        else:
            life.lose(what)


def _plain(reported: tuple[list[dict[str, Any]], list[Position], list[Position]]) -> list[Any]:
    alerts, duplicates, late = reported
    return [sorted(map(alert_values, alerts)), sorted(map(str, duplicates)), sorted(map(str, late))]


def outcome(life: Life) -> tuple[list[Any], list[int], list[int]]:
    """In the twin's words."""
    ends = [0]
    for _, data in life.chunks:
        ends += [ends[-1] + length for length in _lengths(data)]
    places = {offset: place for place, offset in enumerate(ends)}
    found = ([places[p.offset] for p in each] for each in (life.duplicates, life.late))
    duplicates, late = (sorted(each) for each in found)
    return sorted(map(alert_values, life.alerts)), duplicates, late


def _lengths(data: bytes) -> list[int]:
    total, lengths = 0, []
    for line in data.splitlines(keepends=True):
        total += len(line)
        lengths.append(total)
    return lengths


@settings(many, max_examples=EXAMPLES // 2)
@given(st.data(), records(30), st.booleans(), st.sampled_from([{}, SPREAD]), st.sampled_from([0, 500, 5000]))
def test_any_life_reports_what_its_logs_say(
    data: st.DataObject, made: list[Record], ingest_column: bool, defaults: dict[str, str], lag_ms: int
) -> None:
    if not ingest_column:
        made = with_ingest(made, running_max_ingest([record["_event_ms"] for record in made]))
    spec = stream_spec(ingest_column=ingest_column)
    ops = data.draw(lives(len(made)))
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000) if defaults else Defaults()
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder), spec, standing, data.draw(st.integers(1, 3)), lag_ms, Feed())
        live(life, ops, made)
        logged = life.feed.logged
        found = outcome(life)
    expected = naive_detect(logged, made, defaults=defaults, lists=LISTS)
    assert found == twin_outcome(expected, made)
    whole = FastPath.of(plan_of(logged, spec, defaults), 1, Bounds(lag_ms))
    run_whole(whole, Shape(1, [(0, len(made))], []), made, ["log"] * len(made))
    check(whole, logged, expected, made)


COUNT: Body = {**BUSY, "aggregation_type": "count", "group_by": "account", "emit": "every", "aggregation_threshold": 1}


def _record(number: int, at_s: float, came_s: float | None = None) -> Record:
    came_s = at_s if came_s is None else came_s
    return {
        "_id": f"t{number}",
        "_event_ms": START_MS + round(at_s * 1000),
        "_ingest_ms": START_MS + round(came_s * 1000),
        "account": "a1",
    }


def _unlived(folder: Path, lag_ms: int = 0) -> Life:
    standing = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=2000)
    return Life(folder, stream_spec(ingest_column=True), standing, 1, lag_ms, Feed())


def _lived(made: Sequence[Record], ops: Sequence[Op], folder: Path, lag_ms: int = 0) -> Life:
    life = _unlived(folder, lag_ms)
    live(life, ops, made)
    expected = naive_detect(life.feed.logged, made, defaults=SPREAD, lists=LISTS)
    assert outcome(life) == twin_outcome(expected, made)
    return life


def test_a_rule_that_waits_longer_comes_while_copies_do(tmp_path: Path) -> None:
    """A store got its reach for duplicates when it was made: a live one and a rebuilt one answered differently."""
    patient = {"rule_id": "patient", "version": 1, "rule_type": "threshold", "source_topic": STREAM}
    patient |= {"watermark_delay": "0s", "allowed_lateness": "2h"}
    patient["conditions"] = [{"field": "account", "operator": "exists"}]
    made = [_record(0, 0), _record(1, 1), _record(0, 0, 1800), _record(1, 1, 1801), _record(2, 1802)]
    for ending in ([], [("restart", 0)]):
        ops: list[Op] = [("publish", {**COUNT, "rule_id": "r0"}), ("batch", (2, 1, None)), ("publish", patient)]
        ops += [("batch", (1, 1, None)), *ending, ("batch", (1, 1, None)), ("batch", (1, 1, None))]
        life = _lived(made, ops, tmp_path / str(len(ending)))
        assert [p.record_id for p in life.duplicates] == ["t0", "t1"]
        assert [a["record_id"] for a in life.alerts if a["rule_id"] == "patient"] == ["t2"]


def test_versions_that_ended_leave_nothing_behind(tmp_path: Path) -> None:
    """29 versions of a rule, the last retired, kept 29 lines and two state stores."""
    made = [_record(number, 10 * number) for number in range(34)]
    ops: list[Op] = []
    for version in range(1, 30):
        window = "30s" if version % 2 else "60s"
        ops += [("publish", {**COUNT, "rule_id": "r0", "version": version, "window": window}), ("batch", (1, 1, None))]
    last = {**COUNT, "rule_id": "r0", "version": 29, "window": "30s"}
    ops += [("publish", {**last, "status": "retired"}), ("batch", (3, 1, None)), ("batch", (1, 1, None))]
    life = _lived(made, [*ops, ("restart", 0), ("batch", (1, 1, None))], tmp_path)
    (plan,) = life.changes._snapshot.plans()
    assert [(lp.state_store.home, len(lp.plan.lines)) for lp in plan.state_stores] == [(True, 0)]
    assert len(life.changes._snapshot.rules) == 0
    assert {a["rule_version"] for a in life.alerts} == set(range(1, 30)), "each judged while it was in force"
    assert not life.changes._snapshot.backfills
    assert not list((tmp_path / "state" / "backfills").iterdir())


THREE: Body = {
    **{name: value for name, value in COUNT.items() if name in {"version", "source_topic", "group_by"}},
    **SPREAD,
    "rule_id": "three",
    "rule_type": "sequence",
    "steps": [{"name": "any", "times": 3}],
    "within": "60s",
}


def test_a_sequence_that_comes_finds_what_is_under_way(tmp_path: Path) -> None:
    """In a state store of its own, which has its past, and in one that is there already, which is offered again."""
    made = [_record(number, number) for number in range(9)]
    pair = {**THREE, "rule_id": "pair", "steps": [{"name": "any", "times": 2}]}
    paused = [{**THREE, "status": status} for status in ("paused", "active")]
    ops: list[Op] = [("batch", (2, 1, None)), ("publish", THREE), ("batch", (1, 1, None)), ("publish", pair)]
    ops += [("batch", (1, 1, None)), ("restart", 0), ("publish", paused[0]), ("batch", (2, 1, None))]
    ops += [("publish", paused[1]), ("lose", 0), ("batch", (3, 1, None))]
    life = _lived(made, ops, tmp_path)
    found: dict[str, list[list[str]]] = {"three": [], "pair": []}
    for alert in life.alerts:
        found[alert["rule_id"]].append(alert["evidence"]["record_ids"])
    assert found["three"] == [[f"t{n - 2}", f"t{n - 1}", f"t{n}"] for n in (2, 3, 6, 7, 8)]
    assert found["pair"] == [[f"t{n - 1}", f"t{n}"] for n in range(3, 9)]
    (plan,) = life.changes._snapshot.plans()
    assert [len(each.plan.judging) for each in plan.state_stores if each.state_store.ordered] == [2]


def test_a_sequence_of_two_names_of_its_key_comes_with_its_past(tmp_path: Path) -> None:
    """A past is read with its first store for accounting, of which there are as many rows as keys of records."""
    made = [{**_record(number, number), "device": 1 + number % 2, "amount": 2 - number % 2} for number in range(6)]
    named = {**THREE, "group_by": "device", "steps": [{"name": "here"}, {"name": "there", "group_by": "amount"}]}
    ops: list[Op] = [("batch", (3, 1, None)), ("publish", named), ("batch", (2, 1, None)), ("restart", 0)]
    life = _lived(made, [*ops, ("batch", (1, 1, None))], tmp_path)
    assert [a["evidence"]["record_ids"] for a in life.alerts] == [["t2", "t3"], ["t3", "t4"], ["t4", "t5"]]
    assert [a["key"] for a in life.alerts] == [{"device": 1}, {"device": 2}, {"device": 1}]


def test_a_name_of_a_state_store_is_never_used_again(tmp_path: Path) -> None:
    """What the segments say of a state store that is gone must not come back in one of another shape."""
    summed = {**COUNT, "rule_id": "sums", "aggregation_type": "sum", "aggregation_field": "amount"}
    made = [{**_record(number, number), "amount": 1, "price": 0.5} for number in range(12)]
    ops: list[Op] = [("publish", {**COUNT, "rule_id": "r0"}), ("batch", (3, 1, None)), ("publish", summed)]
    ops += [("batch", (2, 1, None)), ("publish", {**summed, "status": "retired"}), ("batch", (2, 1, None))]
    real = {**summed, "rule_id": "real", "aggregation_field": "price"}
    ops += [("publish", real), ("batch", (2, 1, None)), ("restart", 0), ("batch", (3, 1, None))]
    life = _lived(made, ops, tmp_path)
    assert [lp.state_store.columns for plan in life.changes._snapshot.plans() for lp in plan.state_stores] == [
        (),  # that of ids, of the time before any rule
        (),
        (("price", "float"),),
    ]
    assert [a["value"] for a in life.alerts if a["rule_id"] == "real"][-1] == pytest.approx(1.5)


def test_state_stores_looked_at_ahead_do_not_share_a_past_for_being_called_alike(tmp_path: Path) -> None:
    """A past was kept under the names of its stores: what was read for one was given to another of another shape."""
    made = [{**_record(number, number), "amount": 1} for number in range(4)]
    first = {**COUNT, "rule_id": "first"}
    summed = {**COUNT, "rule_id": "sums", "aggregation_type": "sum", "aggregation_field": "amount"}
    life = _unlived(tmp_path)
    live(life, [("batch", (3, 1, None)), ("ahead", first), ("ahead", summed)], made)
    life.feed.waiting.pop()  # its file is gone again before it is taken up
    life.side_input()
    life.between()
    _go_on(life, [("batch", (1, 1, None))], made, 3)
    assert [a["value"] for a in life.alerts] == [3], "its window of three seconds has the two before"


def test_a_publication_is_not_lost_when_the_snapshot_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [_record(number, number) for number in range(4)]
    life = Life(tmp_path, stream_spec(ingest_column=True), Defaults(), 1, 0, Feed())
    live(life, [("batch", (2, 1, None))], made)
    failures = [OSError(28, "No space left on device")] * 2
    replace = SnapshotFile.replace

    def failing(self: SnapshotFile, snapshot: Any) -> None:
        if failures:
            raise failures.pop()
        replace(self, snapshot)

    monkeypatch.setattr(SnapshotFile, "replace", failing)
    life.feed.waiting.append({**COUNT, "rule_id": "r0"})
    life.side_input()
    with pytest.raises(OSError, match="No space left"):
        life.between()
    life.take_in(made[2:], 1)
    life.deliver(life.judge(life.plan_batch()))
    life.commit()
    assert not failures, "held until it was written"
    assert [a["record_id"] for a in life.alerts] == ["t2", "t3"]


def test_a_held_batch_holds_no_rule_back(tmp_path: Path) -> None:
    """It is logged while the batch is with its sinks, and holds for the records after it, killed or not."""
    made = [_record(number, number) for number in range(6)]
    for number, kind in enumerate(("batch", "killed", "uncommitted")):
        ops: list[Op] = [("batch", (2, 1, None)), (kind, (2, 1, {**COUNT, "rule_id": "r0"})), ("batch", (2, 1, None))]
        life = _lived(made, ops, tmp_path / str(number))
        assert [body["effective_from"] for body in life.feed.logged] == [START_MS + 3001]
        assert [a["record_id"] for a in life.alerts] == ["t4", "t5"]
        assert [a["value"] for a in life.alerts] == [3, 3], "with its past"


def test_other_defaults_of_lateness_leave_windows_as_they_are(tmp_path: Path) -> None:
    """The state stores of the run before were compiled anew by the new defaults, and so no new ones were seen."""
    plain = {name: value for name, value in COUNT.items() if name not in {"watermark_delay", "allowed_lateness"}}
    made = [_record(number, number) for number in range(8)]
    for starts in (0, 1):
        life = Life(tmp_path / str(starts), stream_spec(ingest_column=True), Defaults(), 1, 0, Feed())
        published = ("publish", {**plain, "rule_id": "r0", "window": "60s"})
        live(life, [published, ("batch", (5, 1, None)), *[("restart", 0)] * starts], made)
        life.defaults = Defaults(watermark_delay_ms=1000, allowed_lateness_ms=600_000)
        live(life, [], made)
        life.take_in(made[5:], 1)
        life.deliver(life.judge(life.plan_batch()))
        assert [alert["value"] for alert in life.alerts][-3:] == [6, 7, 8]


FRESH = [{"field": "account", "operator": "in", "value": {"list": "fresh"}}]


def test_a_rule_and_its_list_that_come_while_a_batch_is_held(tmp_path: Path) -> None:
    """Killed before the snapshot has them, the batch is run again: it meets the same lists, and the new one."""
    made = [_record(number, number) for number in range(6)]
    for number, kind in enumerate(("batch", "killed", "uncommitted")):
        life = Life(tmp_path / str(number), stream_spec(ingest_column=True), Defaults(), 1, 0, Feed())
        rule = {**COUNT, "rule_id": "r0", "conditions": FRESH}
        live(life, [("batch", (2, 1, None))], made)
        life.feed.waiting_lists = {"fresh": [("a1", None)]}
        _go_on(life, [(kind, (2, 1, rule)), ("batch", (2, 1, None))], made, 2)
        assert [(a["record_id"], a["value"]) for a in life.alerts] == [("t4", 3), ("t5", 3)], "with its past"
        assert not life.feed.noted


def test_a_newer_list_is_not_followed_by_an_older_one(tmp_path: Path) -> None:
    made = [_record(number, number) for number in range(6)]
    life = Life(tmp_path, stream_spec(ingest_column=True), Defaults(), 1, 0, Feed())
    life.feed.lists = {"fresh": [(-math.inf, [("a2", None)])]}
    rule = {**COUNT, "rule_id": "r0", "conditions": FRESH}
    live(life, [("publish", rule)], made)
    life.take_in(made[:2], 1)
    reported = life.judge(life.plan_batch())
    life.start()  # killed: what is there is run again
    life.deliver(reported)
    life.commit()
    life.feed.waiting_lists = {"fresh": [("a1", None)]}
    life.side_input()  # and no gap between batches
    _go_on(life, [("batch", (2, 1, None))], made, 2)
    life.between()
    _go_on(life, [("batch", (2, 1, None))], made, 4)
    assert [a["record_id"] for a in life.alerts] == ["t2", "t3", "t4", "t5"]
