"""The check of the chaos drill finds lost, duplicate, unexpected and different output."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from chaos.checks.alert_check import Expected, Sorter, of_sink, wanted
from chaos.checks.contents import Arrived, Contents
from chaos.checks.ledger import CHUNK, Finding, Ledger
from chaos.faults import KINDS, OF_THE_API, drawn, possible
from chaos.load.log import Log, Sent, digest_of, id_of
from chaos.results.plot import Band, Panel, svg

ALERTS = [{"alert_id": f"a{number}", "value": number, "detected_at": "then"} for number in range(3)]
DECISIONS: list[dict[str, Any]] = [
    {"decision_id": "d0", "kind": "decision", "record_id": id_of(0), "revision": 0, "reasons": [1]},
    {"decision_id": "d1", "kind": "decision", "record_id": id_of(1), "revision": 0, "reasons": []},
    {"decision_id": "d2", "kind": "revision", "record_id": id_of(0), "revision": 1, "reasons": [2]},
]
PLACES = [("drill-payments-0", 7), ("drill-payments-1", 9)]


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    paths = tmp_path / "alerts.jsonl", tmp_path / "decisions.jsonl"
    for path, bodies in zip(paths, (ALERTS, DECISIONS), strict=True):
        path.write_text("".join(json.dumps(each) + "\n" for each in bodies))
    hits, last = {"d0", "d2"}, {"d2"}
    return Expected(
        in_time=Ledger.named(lambda: [id_of(0), id_of(1)]),
        alerts=wanted(paths[0], "alert_id"),
        decisions=wanted(paths[1], "decision_id"),
        with_hits=wanted(paths[1], "decision_id", lambda each: each["decision_id"] in hits),
        last=wanted(paths[1], "decision_id", lambda each: each["decision_id"] in last),
        dead=Ledger.named(lambda: [f"{PLACES[0][0]}:{PLACES[0][1]} wrong_type"]),
        late=Ledger.named(lambda: [f"{PLACES[1][0]}:{PLACES[1][1]}"]),
    )


def judged(expected: Expected, found: Contents, sink: str = "one") -> dict[str, Finding]:
    return {each.what: each for each in of_sink(expected, sink, found)}


def test_what_is_as_it_must_be_is_good(expected: Expected) -> None:
    later = [{**each, "detected_at": "another time"} for each in ALERTS]
    found = Contents(later, [DECISIONS[0], DECISIONS[2]], dead=[(PLACES[0], "wrong_type")], late=[PLACES[1]])
    found.ids, found.last, found.times = ["a0", "a1", "a2"], [DECISIONS[2]], {"a0": 1, "a1": 3, "a2": 1}
    findings = judged(expected, found)
    assert len(findings) == 7
    assert [each for each in findings.values() if not each.good] == []
    assert [each for each in judged(expected, Contents(all_decisions=DECISIONS)).values() if not each.good] == []


def test_each_kind_of_wrong_is_reported(expected: Expected) -> None:
    alerts = [ALERTS[0], ALERTS[0], {**ALERTS[1], "value": 5}, {"alert_id": "other"}]
    found = judged(expected, Contents(alerts, dead=[(PLACES[0], "bad_encoding")], late=[], times={"a0": 1}))
    one = found["alerts"]
    assert (one.expected, one.found, one.lost, one.doubled, one.strange, one.other) == (3, 4, 1, 1, 1, 1)
    assert one.examples == ["strange: other", "doubled: a0", "lost: a2", "a1 differs: value: 5, expected 1"]
    assert (found["dead letters"].lost, found["dead letters"].strange) == (1, 1)
    assert found["late records"].lost == 1
    assert found["alerts posted"].lost == 2
    decided = judged(expected, Contents(all_decisions=[DECISIONS[0], DECISIONS[0]]))
    assert (decided["decisions"].lost, decided["decisions"].doubled) == (2, 1)
    assert (decided["records, each decided about"].lost, decided["records, each decided about"].doubled) == (1, 1)


def test_what_becomes_of_a_record_follows_from_the_log() -> None:
    """Times in ms: in time up to 5,000 behind the broker's, late beyond 20,000, of the future an hour before it."""
    behind = [0, 5_000, 5_001, 20_000, 20_001, -3_600_000, -3_600_001]
    log = [Sent(number, 0.0, number, 10_000_000 - ms, digest_of(b"x")) for number, ms in enumerate(behind)]
    log += [replace(log[0], number=7), Sent(8, 0.0, None, None, digest_of(b""), "malformed_json")]
    records = [Arrived(each.number, 0, each.number, 10_000_000, b"x", each.digest) for each in log]
    found, readable = sorted_out(log, records)
    topic = "drill-payments-0"
    assert found.dead == [f"{topic}:6 time_in_future", f"{topic}:7 duplicate_id", f"{topic}:8 malformed_json"]
    assert found.late == [f"{topic}:4"]
    assert list(found.names_in_time()) == [id_of(0), id_of(1), id_of(5)]
    assert [each.number for each in readable] == [0, 1, 2, 3, 4, 5, 7]
    assert found.of_the_topic().good
    assert sorted_out(log, records[1:])[0].of_the_topic().lost == 1
    assert sorted_out(log, [*records, records[3]])[0].of_the_topic().doubled == 1
    assert sorted_out(log, [replace(records[0], digest=1), *records[1:]])[0].of_the_topic().other == 1


def sorted_out(sent: Iterable[Sent], records: Iterable[Arrived]) -> tuple[Sorter, list[Arrived]]:
    log = Log()
    for each in sent:
        log.add(each)
    sorter = Sorter(log)
    return sorter, list(sorter.readable(records))


def test_a_log_keeps_what_it_was_given() -> None:
    log = Log()
    sent = [Sent(0, 1.5, 0, 7, 2**64 - 1), Sent(1, 2.5, None, None, 0, "tombstone"), Sent(2, 2.5, 0, 0, 3)]
    for each in sent:
        log.add(each)
    assert [log[number] for number in range(len(log))] == sent
    with pytest.raises(ValueError, match="was to be number 3"):
        log.add(sent[0])


def test_what_is_counted_over_several_lists_is_counted_once() -> None:
    """In the second list a name of the first comes again, one differs, and one is strange."""
    names = [str(number) for number in range(CHUNK + 10)]
    ledger = Ledger.of([(name, 1) for name in names], lambda: names)
    reported: list[int] = []
    found = [(name, 1) for name in names[:-1]] + [("0", 1), ("5", 2), ("other", 1)]
    one = ledger.compare("s", "w", found, reported.append)
    assert (one.found, one.lost, one.doubled, one.strange, one.other) == (CHUNK + 12, 1, 2, 1, 1)
    assert reported == [10]
    assert one.examples == ["strange: other", "doubled: 0", "doubled: 5", f"lost: {CHUNK + 9}"]
    with pytest.raises(RuntimeError, match="twice"):
        Ledger.named(lambda: ["a", "a"])
    assert Ledger.named(list).compare("s", "w", [("a", 0)]).strange == 1


def test_nothing_is_struck_that_is_not_there() -> None:
    few = possible(executors=False, store=False, registry=False, api=False)
    missing = set(KINDS) - set(few) - set(OF_THE_API)
    assert {kind.rpartition("-")[2] for kind in missing} == {"executor", "store", "registry"}
    assert set(few) & set(OF_THE_API) == set()
    assert set(possible(executors=True, store=True, registry=True, api=True)) == set(KINDS)


def test_faults_are_those_of_their_seed_and_each_kind_comes() -> None:
    faults = drawn(5, 100)
    assert faults == drawn(5, 100)
    assert faults != drawn(6, 100)
    assert {kind for fault in faults for kind in fault.kinds} == set(KINDS)


def test_the_plot_is_a_picture() -> None:
    panels = [Panel("lag <1>", [(0.0, 0), (1.0, 5_000)], line=True), Panel("none", [], line=False)]
    root = ET.fromstring(svg("t", panels, [Band(0.1, 0.2, 0.6, "cut & healed")], 1.0))  # noqa: S314 - our own
    assert root.tag.endswith("svg")
    assert sum(each.tag.endswith("polyline") for each in root.iter()) == 1
