"""The judge of the chaos drill sees what is lost, what comes twice, what nobody expects, and what differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from chaos.contents import Arrived, Contents
from chaos.faults import KINDS, drawn
from chaos.judging import Expected, Finding, compare, of_the_topic, sorted_out, wanted
from chaos.plot import Band, Panel, svg
from chaos.producer import Sent, digest_of

ALERTS = [{"alert_id": f"a{number}", "value": number, "detected_at": "then"} for number in range(3)]
DECISIONS: list[dict[str, Any]] = [
    {"decision_id": "d0", "kind": "decision", "record_id": "t0", "revision": 0, "reasons": [1]},
    {"decision_id": "d1", "kind": "decision", "record_id": "t1", "revision": 0, "reasons": []},
    {"decision_id": "d2", "kind": "revision", "record_id": "t0", "revision": 1, "reasons": [2]},
]
PLACES = [("drill-payments-0", 7), ("drill-payments-1", 9)]


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    paths = tmp_path / "alerts.jsonl", tmp_path / "decisions.jsonl"
    for path, bodies in zip(paths, (ALERTS, DECISIONS), strict=True):
        path.write_text("".join(json.dumps(each) + "\n" for each in bodies))
    decisions = wanted(paths[1], "decision_id")
    return Expected(
        in_time=frozenset({"t0", "t1"}),
        alerts=wanted(paths[0], "alert_id"),
        decisions=decisions,
        with_hits=decisions.only(["d0", "d2"]),
        last=decisions.only(["d2"]),
        dead={PLACES[0]: "wrong_type"},
        late=frozenset({PLACES[1]}),
    )


def judged(expected: Expected, found: Contents, sink: str = "one") -> dict[str, Finding]:
    return {each.what: each for each in compare(expected, {sink: found})}


def test_what_is_as_it_must_be_is_good(expected: Expected) -> None:
    later = [{**each, "detected_at": "another time"} for each in ALERTS]
    found = Contents(later, [DECISIONS[0], DECISIONS[2]], [(PLACES[0], "wrong_type")], [PLACES[1]], ["a0", "a1", "a2"])
    found.last, found.times = [DECISIONS[2]], {"a0": 1, "a1": 3, "a2": 1}
    findings = judged(expected, found)
    assert len(findings) == 7
    assert [each for each in findings.values() if not each.good] == []
    assert [each for each in judged(expected, Contents(decisions=DECISIONS), "decided").values() if not each.good] == []


def test_each_kind_of_wrong_is_told(expected: Expected) -> None:
    alerts = [ALERTS[0], ALERTS[0], {**ALERTS[1], "value": 5}, {"alert_id": "other"}]
    found = judged(expected, Contents(alerts, dead=[(PLACES[0], "bad_encoding")], late=[], times={"a0": 1}))
    one = found["alerts"]
    assert (one.expected, one.found, one.lost, one.doubled, one.strange, one.other) == (3, 4, 1, 1, 1, 1)
    assert one.examples == ["lost: a2", "doubled: a0", "strange: other", "a1 differs: value: 5, expected 1"]
    assert (found["dead letters"].lost, found["dead letters"].strange) == (1, 1)
    assert found["late records"].lost == 1
    assert found["alerts posted"].lost == 2
    decided = judged(expected, Contents(decisions=[DECISIONS[0], DECISIONS[0]]), "decided")
    assert (decided["decisions"].lost, decided["decisions"].doubled) == (2, 1)
    assert (decided["records, each decided about"].lost, decided["records, each decided about"].doubled) == (1, 1)


def test_what_becomes_of_a_record_follows_from_the_log() -> None:
    """Times in ms: in time up to 5,000 behind the broker's, late beyond 20,000, of the future an hour before it."""
    behind = [0, 5_000, 5_001, 20_000, 20_001, -3_600_000, -3_600_001]
    log = [Sent(number, 0.0, f"t{number}", 10_000_000 - ms, digest_of(b"x")) for number, ms in enumerate(behind)]
    log += [replace(log[0], number=7), Sent(8, 0.0, None, None, digest_of(b""), "malformed_json")]
    records = [Arrived(each.number, 0, each.number, 10_000_000, b"x", each.digest) for each in log]
    found = sorted_out(log, records)
    topic = "drill-payments-0"
    assert found.dead == {(topic, 6): "time_in_future", (topic, 7): "duplicate_id", (topic, 8): "malformed_json"}
    assert found.late == {(topic, 4)}
    assert found.in_time == {"t0", "t1", "t5"}
    assert [each.number for each in found.readable] == [0, 1, 2, 3, 4, 5, 7]
    assert of_the_topic(log, records).good
    assert of_the_topic(log, records[1:]).lost == 1
    assert of_the_topic(log, [replace(records[0], digest=b"another"), *records[1:]]).other == 1


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
