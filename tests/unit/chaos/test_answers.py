"""The judge of the chaos drill sees each way in which the API could break its word."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from chaos.api_load.request_log import FIRST, Answer, Ask, Notes, asked_id, read_notes
from chaos.api_load.scheduling_delay import BEAT_S, Pace
from chaos.checks.alert_check import ACCEPTED, IN_TIME, Sorter
from chaos.checks.answers import Facts, Kept, findings_of, kept_in
from chaos.checks.api_report import figures
from chaos.checks.contents import Arrived
from chaos.checks.ledger import Finding
from chaos.load.log import Log, digest_of, record_of

ASKS, TOPIC, DECIDED, KEPT, SETTLED, REFUSED = (
    "asks, each ended by its deadline",
    "ids answered, each in the topic",
    "ids answered, each decided",
    "answers, each as in the ledger",
    "answers or revisions, as the stream",
    "other bodies, each refused",
)
ID = asked_id(0)
ANSWER = Answer(40.0, 0.0, "peek", "allow", "d0", "r0", statuses=(200,))
ASK = Ask(0, ID, "first", "peek", 50.0, 1.0, answer=ANSWER)
HELD = Kept(ID, "d0", "allow", "peek", "r0", 1_000)
DECISION = {"kind": "decision", "decision": "allow", "revision": 0, "reasons": []}
LATER, BEFORE = "1970-01-01T00:00:03.001Z", "1970-01-01T00:00:03.000Z"  # two seconds after the answer at most
REVISED = {"kind": "revision", "decision": "review", "revision": 1, "reasons": ["rule"], "decided_at": LATER}


def found(
    asks: Sequence[Ask] = (ASK,),
    topic: str | None = IN_TIME,
    stream: Sequence[Mapping[str, Any]] = (DECISION,),
    kept: Kept | None = HELD,
) -> dict[str, Finding]:
    facts = Facts(
        asks,
        {} if topic is None else {FIRST: topic},
        {ID: [dict(each) for each in stream]} if stream else {},
        {} if kept is None else {ID: kept},
    )
    assert figures(facts)["asks"] == len(asks)
    return {each.what: each for each in findings_of(facts)}


def bad(findings: Mapping[str, Finding]) -> list[str]:
    return [name for name, each in findings.items() if not each.good]


def answered(**changes: Any) -> Ask:
    return replace(ASK, answer=replace(ANSWER, **changes))


def test_what_is_kept_is_good() -> None:
    findings = found()
    assert list(findings) == [ASKS, TOPIC, DECIDED, KEPT, SETTLED, REFUSED]
    assert bad(findings) == []
    assert [each.expected for each in findings.values()] == [1, 1, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("ask", "wrong"),
    [
        (answered(waited_ms=70.0), []),  # the client's own 20 ms
        (answered(waited_ms=70.1), [ASKS]),
        (answered(waited_ms=170.0, late_ms=100.0), []),  # its process was not run
        (answered(waited_ms=170.1, late_ms=100.0), [ASKS]),
        (replace(ASK, answer=None), [ASKS]),
    ],
    ids=["bound", "beyond", "late", "later", "never"],
)
def test_no_caller_waits_beyond_its_deadline(ask: Ask, wrong: list[str]) -> None:
    assert bad(found([ask])) == wrong


def test_what_is_answered_is_in_the_topic_and_decided() -> None:
    assert bad(found(topic=None, stream=())) == [TOPIC]
    assert bad(found(stream=())) == [DECIDED]
    assert bad(found(topic="late", stream=())) == []
    assert bad(found(topic=ACCEPTED, stream=())) == []  # between what is in time and what is late either may be
    assert bad(found(topic="late")) == [DECIDED]


def test_an_unreachable_api_gave_no_answer() -> None:
    unreachable = answered(answered="unreachable", decision="review", decision_id="", receipt="", statuses=(0, 503))
    assert bad(found([unreachable], topic=None, stream=(), kept=None)) == []


def test_an_id_has_one_answer_and_the_ledger_has_it() -> None:
    again = replace(answered(replayed=True), number=1, why="again")
    assert bad(found([ASK, again])) == []
    other = replace(answered(replayed=True, receipt="r1"), number=1, why="again")
    assert bad(found([ASK, other])) == [KEPT]
    assert bad(found([answered(answered="fallback")])) == [KEPT]
    assert bad(found(kept=None)) == [KEPT]


def test_where_the_stream_decides_otherwise_a_revision_says_so() -> None:
    otherwise = {**DECISION, "decision": "block"}
    assert bad(found(stream=[otherwise])) == [SETTLED]
    assert bad(found(stream=[otherwise], kept=replace(HELD, revisions=({"decision": "block"},)))) == []
    assert bad(found(stream=[DECISION, REVISED])) == [SETTLED]
    assert bad(found(stream=[DECISION, {**REVISED, "decided_at": BEFORE}])) == []  # there was nothing to keep it with
    assert bad(found(stream=[otherwise, {**REVISED, "decided_at": BEFORE}])) == [SETTLED]
    assert bad(found(stream=[DECISION, REVISED], kept=replace(HELD, revisions=({"decision": "review"},)))) == []
    assert bad(found(kept=replace(HELD, revisions=({"decision": "review"},)))) == [SETTLED]


def test_of_a_copy_at_which_no_rule_holds_nothing_is_compared() -> None:
    def settled(*reasons: str) -> Finding:
        body = {**DECISION, "decision": "block", "reasons": list(reasons)}
        facts = Facts([ASK], {FIRST: IN_TIME}, {ID: [body]}, {ID: HELD}, frozenset({ID}))
        (one,) = (each for each in findings_of(facts) if each.what == SETTLED)
        assert figures(facts)["not_compared"] == (not reasons)
        return one

    assert (settled().expected, settled().good) == (0, True)
    assert (settled("rule").expected, settled("rule").good) == (1, False)


def test_another_body_is_refused_and_no_other_ask_is() -> None:
    conflict = answered(answered="refused", problem="409 Conflict: x", statuses=(409,))
    other = replace(conflict, number=1, why="other")
    assert bad(found([ASK, other])) == []
    assert bad(found([ASK, replace(ASK, number=1, why="other")])) == [REFUSED]
    assert bad(found([ASK, replace(conflict, number=1, why="again")])) == [REFUSED]
    ahead = answered(answered="refused", problem="422 Unprocessable Entity: x", statuses=(422,))
    assert bad(found([ASK, replace(ahead, number=1)])) == [REFUSED]
    assert bad(found([ASK, replace(ahead, number=1, clock_ms=7_200_000)])) == []


def test_notes_outlive_a_caller_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "asks.jsonl"
    asks = [replace(ASK, answer=None), replace(ASK, number=1, record_id=asked_id(1), answer=None)]
    with Notes(path) as notes:
        for ask in asks:
            notes.asked(ask)
        notes.answered(1, ANSWER)
    with path.open("ab") as file:
        file.write(b'{"of":0,"waited')  # it died here
    assert read_notes(path) == [asks[0], replace(asks[1], answer=ANSWER)]
    assert read_notes(tmp_path / "none") == []


def test_records_of_the_api_are_sorted_by_their_clocks() -> None:
    """In time up to 5 s behind the broker, late beyond 20 s, of the future an hour ahead; the second is a copy."""
    behind = [0, 5_001, 20_001, -3_600_001]
    bodies = [{"id": asked_id(number), "event_time": 10_000_000 - ms} for number, ms in enumerate(behind)]
    values = [orjson.dumps(body) for body in [*bodies, bodies[0]]]
    records = [Arrived(None, 0, at, 10_000_000, value, digest_of(value)) for at, value in enumerate(values)]
    sorter = Sorter(Log())
    assert [each.offset for each in sorter.readable(records)] == [0, 1, 2, 4]
    assert sorter.asked == {FIRST: IN_TIME, FIRST + 1: ACCEPTED, FIRST + 2: "late", FIRST + 3: "time_in_future"}
    assert list(sorter.names_in_time()) == [ID]
    assert sorter.copied == {FIRST}
    assert sorter.late == ["drill-payments-0:2"]
    assert sorter.dead == ["drill-payments-0:3 time_in_future", "drill-payments-0:4 duplicate_id"]
    assert sorter.of_the_topic().good  # they are none of the load's


def test_the_ledger_is_read_with_its_revisions_in_order(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as ledger, ledger:
        ledger.execute("CREATE TABLE answers (record_id, decision_id, decision, answered, body, answered_ms)")
        ledger.execute("CREATE TABLE revisions (decision_id, revision, body, at_ms)")
        ledger.execute("INSERT INTO answers VALUES (?, 'd0', 'allow', 'peek', ?, 1000)", (ID, b'{"receipt":"r0"}'))
        ledger.execute("INSERT INTO answers VALUES ('claimed', NULL, NULL, NULL, NULL, NULL)")
        rows = [("d0", 1, b'{"decision":"review"}', 7), ("d0", 0, b'{"decision":"block"}', 5)]
        ledger.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?)", rows)
    assert kept_in(path) == {ID: replace(HELD, revisions=({"decision": "block"}, {"decision": "review"}))}
    assert kept_in(path)[ID].last == "review"


def test_a_loop_that_was_not_run_is_known() -> None:
    async def blocked() -> tuple[float, float, float]:
        pace = Pace()
        beating = asyncio.create_task(pace.beat())
        await asyncio.sleep(2 * BEAT_S)
        from_s = time.monotonic()
        time.sleep(0.1)  # noqa: ASYNC251 - what a machine does that runs others
        until_s = time.monotonic()
        meanwhile = pace.late_s(from_s, until_s)
        await asyncio.sleep(2 * BEAT_S)
        after = pace.late_s(from_s, until_s)
        beating.cancel()
        return meanwhile, after, until_s - from_s

    meanwhile, after, passed = asyncio.run(blocked())
    assert passed - BEAT_S - 0.001 <= meanwhile <= passed
    assert passed - BEAT_S - 0.001 <= after <= passed


def test_ids_of_the_api_are_of_no_other_sender() -> None:
    assert record_of(asked_id(7)) == FIRST + 7
