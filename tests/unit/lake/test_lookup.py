"""Alerts and records of a lake by their ids: which are found, in which bounds; tables in order of time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.backtest.record_search import RecordQuery
from crossline.basics.deadletter import DeadLetter
from crossline.io.stores.protocol import AlertFilter, DecisionFilter
from crossline.lake.lookup.alert_lookup import AlertLookup
from crossline.lake.lookup.history import LakeHistory
from crossline.lake.lookup.ordered_scan import OrderedScan, _cuts
from crossline.lake.lookup.record_values import fields_of_row
from crossline.lake.time_travel import KnownRows, LakeAt
from unit.lake.lake_kit import CHECKPOINT, DAY_MS, START_MS, SpooledPipeline, alert, payment
from unit.lake.test_time_travel import decision

LATER = START_MS + 10**12
RULE = {"rule_id": "burst", "version": 1, "rule_type": "velocity"}


def moment(day: int, ms: int = 0) -> str:
    return f"2026-01-{day + 1:02}T00:00:00.{ms:03}Z"


@pytest.fixture(scope="module")
def lookup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertLookup]:
    """Five days with a payment each, an id that came twice, alerts on days 1 and 3, one of them corrected."""
    made = SpooledPipeline(tmp_path_factory.mktemp("lookup"))
    days = [payment(day, START_MS + day * DAY_MS, account_id="a0", place={"city": "Oslo"}) for day in range(5)]
    event = {"event": "published", "rule_id": "burst", "version": 1, "status": "active", "at": moment(0), "body": RULE}
    first = alert(1, moment(1), alert_id="11111111-aaaa-5000-8000-000000000001", key={"account_id": "a0"})
    other = alert(3, moment(3), alert_id="11112222-aaaa-5000-8000-000000000001", rule_id="other")
    made.batch(days, alerts=[first], positions=[("in/0000.jsonl", 77)], rule_events=[event])
    corrected = {"kind": "correction", "corrects": first["alert_id"], "outcome": "retracted", "caused_by": "p00009"}
    revision = decision("d2", "allow", kind="revision", revises="d1", revision=1)
    again = payment(2, START_MS + 2 * DAY_MS + 5, account_id="a0", cents=9_999)
    copy = DeadLetter("payments", "duplicate_id", "came before", str(made.root / "in" / "0001.jsonl"), 0, b"", "p00002")
    made.batch([again], alerts=[other], decisions=[decision("d1", "block"), revision], dead=[copy])
    made.batch([], alerts=[alert(1, moment(1), alert_id="c1", **corrected)])
    made.write_all()
    reader = made.reader()
    yield AlertLookup(reader)
    reader.close()


def query(lookup: AlertLookup, *ids: str, bounds: tuple[int, int] | None = None, **key: object) -> RecordQuery:
    return RecordQuery(lookup.reader.config.streams["payments"], ids, key, *(bounds or (None, None)))


def test_an_alert_is_found_by_its_id_or_the_start_of_it(lookup: AlertLookup) -> None:
    (found,) = lookup.find("11111111-aaaa-5000-8000-000000000001")
    assert (found.alert["rule_id"], found.checkpoint, found.batch) == ("burst", CHECKPOINT, 0)
    assert found.position == ("in/0000.jsonl", 77)
    assert lookup.find(found.alert["alert_id"], at_ms=START_MS + DAY_MS) == [found]
    assert lookup.find(found.alert["alert_id"], at_ms=START_MS) == []
    assert [each.alert["rule_id"] for each in lookup.find("1111")] == ["burst", "other"]
    assert [each.alert["kind"] for each in lookup.find("c1")] == ["correction"]
    assert lookup.find("99") == []


def test_the_watermark_covers_the_batches_that_all_tables_have(lookup: AlertLookup) -> None:
    (found,) = lookup.find("11112222")
    assert lookup.covers(found)
    assert not lookup.covers(replace(found, batch=3))
    assert not lookup.covers(replace(found, checkpoint="another"))


def test_corrections_and_rules_are_found(lookup: AlertLookup) -> None:
    (found,) = lookup.find("11111111")
    assert [each["alert_id"] for each in lookup.corrections(found.alert)] == ["c1"]
    assert (lookup.rule_body("burst", 1), lookup.rule_body("burst", 2)) == (RULE, None)
    assert lookup.count() == 3


def test_records_are_those_within_the_bounds(lookup: AlertLookup) -> None:
    within = (START_MS + DAY_MS, START_MS + 2 * DAY_MS)
    rows = lookup.records("payments", query(lookup, "p00000", "p00001", "p00002", bounds=within), START_MS, LATER)
    assert sorted(rows) == ["p00001", "p00002"]
    assert rows["p00001"].fields == {
        "id": "p00001",
        "account_id": "a0",
        "at": START_MS + DAY_MS,
        "cents": 10,
        "place": {"city": "Oslo"},
    }
    assert rows["p00002"].fields["cents"] == 20  # of the two with this id the one that came first


def test_a_record_of_another_key_or_at_a_refused_position_is_no_match(lookup: AlertLookup) -> None:
    wanted = query(lookup, "p00002", account_id="a1")
    assert lookup.records("payments", wanted, START_MS, LATER) == {}
    both = query(lookup, "p00002", account_id="a0")
    first = lookup.records("payments", both, START_MS, LATER)["p00002"]
    left = replace(both, refused={(first.partition, first.offset)})
    assert lookup.records("payments", left, START_MS, LATER)["p00002"].fields["cents"] == 9_999


def test_without_bounds_days_are_read_outwards_until_time_is_up(lookup: AlertLookup) -> None:
    ids = [f"p{day:05}" for day in range(5)]
    assert sorted(lookup.records("payments", query(lookup, *ids), START_MS + 2 * DAY_MS, LATER)) == ids
    assert sorted(lookup.records("payments", query(lookup, *ids), START_MS + 3 * DAY_MS, 0.0)) == ["p00003"]
    assert lookup.records("payments", query(lookup), START_MS, LATER) == {}


def test_records_of_keys_come_in_their_order_and_the_latest_first_to_stay(lookup: AlertLookup) -> None:
    spec = lookup.reader.config.streams["payments"]
    found = lookup.of_keys("payments", spec, [{"account_id": "a0"}], START_MS, START_MS + 4 * DAY_MS, 10)
    assert [each.record_id for each in found] == [f"p{day:05}" for day in range(5)]
    assert [each.event_ms for each in found] == [START_MS + day * DAY_MS for day in range(5)]
    last = lookup.of_keys("payments", spec, [{"account_id": "a0"}], START_MS, START_MS + 4 * DAY_MS, 2)
    assert [each.record_id for each in last] == ["p00003", "p00004"]
    assert lookup.of_keys("payments", spec, [{"account_id": "a9"}], START_MS, START_MS + 9 * DAY_MS, 2) == []


def test_lists_have_the_latest_first_with_their_last_word(lookup: AlertLookup) -> None:
    history = LakeHistory(lookup)
    found = [(each["alert_id"][:8], each["status"]) for each in history.alerts(AlertFilter())]
    assert found == [("11112222", "standing"), ("c1", "standing"), ("11111111", "retracted")]
    mine = AlertFilter(key={"account_id": "a0"}, kind="alert")
    assert [each["rule_id"] for each in history.alerts(mine)] == ["other", "burst"]
    before = AlertFilter(until_ms=START_MS + 3 * DAY_MS, kind="alert")
    assert [each["rule_id"] for each in history.alerts(before)] == ["burst"]
    assert list(history.alerts(AlertFilter(key={"account_id": "a9"}))) == []


def test_decisions_are_listed_with_their_revisions(lookup: AlertLookup) -> None:
    history = LakeHistory(lookup)
    assert [each["decision_id"] for each in history.decisions(DecisionFilter())] == ["d2", "d1"]
    assert [each["decision_id"] for each in history.decisions(DecisionFilter(), "d1")] == ["d2", "d1"]
    assert [each["decision_id"] for each in history.decisions(DecisionFilter(decision="block"))] == ["d1"]
    assert [each["decision_id"] for each in history.decisions(DecisionFilter(but_allowed=True))] == ["d1"]
    assert list(history.decisions(DecisionFilter(record_id="p99999"))) == []
    assert list(history.decisions(DecisionFilter(), "d9")) == []


def test_the_last_records_are_listed_in_order_of_time(lookup: AlertLookup) -> None:
    view = LakeAt(lookup.reader, START_MS + DAY_MS)
    names = [each["_record_id"] for each in view.listed(KnownRows.RECORDS, "payments")]
    assert names == [f"p{day:05}" for day in range(5)]  # the copy is left out
    for last in range(1, 7):
        rows = view.listed(KnownRows.RECORDS, "payments", last)
        assert [each["_record_id"] for each in rows] == names[-last:]


def test_rows_come_in_order_of_time_whatever_files_they_are_in(tmp_path: Path) -> None:
    """Against the rows sorted by a naive twin, with slices of several sizes, forwards and backwards."""
    chosen = random.Random(4)
    made = SpooledPipeline(tmp_path)
    times: list[int] = []
    for number in range(4):
        at_ms = [START_MS + chosen.choice([0, 1, DAY_MS, DAY_MS + 7, chosen.randrange(3 * DAY_MS)]) for _ in range(9)]
        made.batch([payment(100 * number + place, each) for place, each in enumerate(at_ms)])
        made.write_all()
        times += at_ms
    reader = made.reader()
    tables = [each for each in reader.tables() if each.layout.name == "records_payments"]
    for slice_rows in (1, 5, 1_000):
        scan = OrderedScan(tables, (), slice_rows)
        parts = list(scan.slices())
        assert list(scan.slices(newest_first=True)) == parts[::-1]
        rows = [list(scan.rows(part, ("at",))[0].column("at").to_pylist()) for part in parts]
        assert [each for part in rows for each in part] == sorted(times)
        assert len(parts) > 3 or slice_rows > 1
    reader.close()


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=40), st.integers(1, 60))
def test_slices_have_the_rows_that_they_shall(groups: list[tuple[int, int]], slice_rows: int) -> None:
    cuts = _cuts(groups, slice_rows)
    assert cuts == sorted(set(cuts))
    starts = sorted(start for start, _ in groups)
    assert set(cuts) <= set(starts[1:])
    edges = [-1, *cuts, 51]
    for start, end in itertools.pairwise(edges[:-1]):
        assert sum(rows for at, rows in groups if start <= at < end) >= slice_rows


def test_values_are_those_of_the_source(lookup: AlertLookup) -> None:
    spec = lookup.reader.config.streams["payments"]
    row = {"id": "p", "at": 5, "tags": ["x", "y"], "place": {"city": None, "spot": {"lat": 1.5, "lon": None}}, "_b": 1}
    assert fields_of_row(spec, row) == {"id": "p", "at": 5, "tags": ["x", "y"], "place": {"spot": {"lat": 1.5}}}
