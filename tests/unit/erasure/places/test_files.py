"""SQLite files, JSON lines, outboxes, the feed, records of the API, the ledger and cases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
import pytest

from crossline.basics.deadletter import DeadLetter
from crossline.basics.streams.schema import load_streams
from crossline.cli.main import run_command
from crossline.erasure.place import Counts, Place
from crossline.erasure.places import stored_files
from crossline.erasure.places.line_files import LinesPlace
from crossline.erasure.places.record_log import record_log_place
from crossline.erasure.places.serve_files import cases_place, ledger_place
from crossline.erasure.places.sqlite_files import store_place
from crossline.erasure.places.stored_files import StoredFilesPlace
from crossline.erasure.places.token_keys import TokenKeysPlace, with_tokens
from crossline.erasure.subject import Key, Subject
from crossline.evaluate.decisions.columns import DecisionColumns
from crossline.io.feed.files import write_batch
from crossline.io.files.identity import read_chunk
from crossline.io.files.log import FileChunks
from crossline.io.objects.file_stores import LocalFiles
from crossline.io.outbox.batch_spool import BatchSpool, SpooledBatch
from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery, LateRecord
from crossline.io.sinks.decisions import Decisions
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.io.tokens.lookup import key_as_tokens
from crossline.lake.writing.side_logs import ERASED_LINE, DecisionFile
from crossline.serve.cases.queue.search import search_all
from crossline.serve.ledger.chain import faults_of
from crossline.serve.ledger.reports import check_ledger, receipt_of
from crossline.serve.ledger.signing import Signer, Verifier
from crossline.serve.ledger.sqlite import SqliteLedger
from unit.erasure.traces import SALT, files_with
from unit.lake.lake_kit import alert, payment
from unit.lake.test_time_travel import decision
from unit.serve.cases import casekit
from unit.serve.ledger import ledgerkit

PERSON = "acct-jo@example"


def subject(**ids: set[str]) -> Subject:
    return Subject((Key("account_id", PERSON),), SALT, ids)


def erased(place: Place, mine: Subject) -> Counts:
    """What is erased; before it the same is found, and after it nothing."""
    place.find(mine)
    found = place.find(mine)
    done = place.erase(mine)
    assert done == found
    after = place.find(mine)
    assert not after.found
    assert after.kept == done.kept + done.changed
    return done


def dead(at: int, detail: str, raw: bytes) -> DeadLetter:
    return DeadLetter(stream="payments", reason="bad", detail=detail, partition="f", offset=at, record_id=None, raw=raw)


def delivery(batch: int = 0) -> Delivery:
    """An alert of the person, one of others with a record of the person in its evidence, and letters."""
    own = alert(3, key={"account_id": PERSON}, message=f"{PERSON} paid")
    evidence = {"count": 2, "record_ids": ["p00001", "p00003"]}
    return Delivery(
        "pay-eu",
        batch,
        alerts=[own, alert(1, evidence=evidence, message="p00003 and others")],
        decisions=[
            {**decision("d1", "allow"), "record_id": "p00003", "revision": 0},
            {**decision("d2", "allow"), "record_id": "p00001", "revision": 0},
        ],
        dead=[
            dead(0, "no id", json.dumps({"account_id": PERSON}).encode()),
            dead(9, f"found {PERSON}", b"{} \xff"),
            dead(19, "torn", b'\xff{"account_id":"' + PERSON.encode()),
        ],
        late=[LateRecord("payments", "p00003", 1, 2, 3, "f", 30, b"{}")],
        positions=[("f", 1), ("f", 2)],
    )


def test_the_store_of_a_sink(tmp_path: Path) -> None:
    sink = SqliteSink(tmp_path / "store.db", "pay-eu")
    sink.open()
    sink.deliver(delivery())
    sink.close()
    assert files_with(tmp_path, PERSON), "not tested"
    place, mine = store_place("store", tmp_path / "store.db"), subject()
    done = erased(place, mine)
    assert (done.gone, done.changed) == (1 + 1 + 1 + 2 + 1, 2), "alert, key, decision, letters, late; alert, letter"
    assert not files_with(tmp_path, PERSON, "p00003")
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection:
        (body,) = connection.execute("SELECT body FROM alerts").fetchone()
        triggers = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'").fetchone()
    assert json.loads(body)["evidence"] == {"count": 2, "record_ids": ["p00001", mine.pseudonym("p00003")]}
    assert triggers == (1,), "triggers are there again"
    sink.open()
    sink.deliver(Delivery("pay-eu", 1, alerts=[alert(2)]))
    sink.close()


def test_of_a_key_with_more_fields_nothing_is_left_for_the_next_alert(tmp_path: Path) -> None:
    """Its number comes again: what the index kept of the alert that went would be the next one's."""
    path = tmp_path / "store.db"
    sink = SqliteSink(path, "pay-eu")
    sink.open()
    keys = [{"account_id": "a2", "device": "d2"}, {"account_id": PERSON, "device": "d-of-jo"}]
    sink.deliver(
        Delivery("pay-eu", 0, alerts=[alert(n, key=key, record_id=f"p{n}", evidence={}) for n, key in enumerate(keys)])
    )
    sink.close()
    store_place("store", path).erase(subject())
    assert not files_with(tmp_path, PERSON, "d-of-jo")
    sink.open()
    sink.deliver(Delivery("pay-eu", 1, alerts=[alert(2, key={"account_id": "a3", "device": "d3"})]))
    sink.close()
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(
            "SELECT a.key, k.field, k.value FROM alert_keys AS k LEFT JOIN alerts AS a USING (seq) ORDER BY seq, field"
        )
        found = [(json.loads(key), field, value) for key, field, value in rows]
    assert [(field, value) for _, field, value in found] == [
        ("account_id", "a2"),
        ("device", "d2"),
        ("account_id", "a3"),
        ("device", "d3"),
    ]
    assert all(key[field] == value for key, field, value in found)


def test_files_of_a_sink_lose_lines_and_take_further_ones(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("alerts.jsonl", "dead.jsonl", "decisions.jsonl")]
    sink = JsonlSink(names[0], "pay-eu", *names[1:])
    sink.open()
    sink.deliver(delivery())
    sink.close()
    assert files_with(tmp_path, PERSON), "not tested"
    done = erased(LinesPlace("sink", lambda: names), subject())
    assert (done.gone, done.changed, done.kept) == (1 + 2 + 1, 2, 1)
    assert not files_with(tmp_path, PERSON, "p00003")
    sink.open()
    sink.deliver(Delivery("pay-eu", 1, alerts=[alert(1), alert(2)]))
    sink.close()
    assert len(names[0].read_bytes().splitlines()) == 2, "the alert that was there is known"


def test_decisions_on_all_records_keep_their_positions(tmp_path: Path) -> None:
    path = tmp_path / "decisions-0000.jsonl"
    lines = [{**decision(f"d{n}", "allow"), "record_id": f"p0000{n}"} for n in range(4)]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    size, log = path.stat().st_size, DecisionFile(path)
    whole, last = log.read(-1)
    done = erased(LinesPlace("decisions", lambda: [path], holds_positions=True), subject(payments={"p00002"}))
    assert done.gone == 1
    assert path.stat().st_size == size
    assert path.read_bytes().splitlines()[2].rstrip() == ERASED_LINE
    rows, end = log.read(-1)
    assert (end, [row["decision_id"] for row in rows]) == (last, ["d0", "d1", "d3"])
    assert [row for row in whole if row["decision_id"] != "d2"] == rows


def test_records_of_the_api_are_blank_and_their_chunks_are_known_again(tmp_path: Path) -> None:
    log, chunks = tmp_path / "log", tmp_path / "sources"
    log.mkdir()
    records = [{**payment(n), **({"account_id": PERSON} if n in {0, 5} else {})} for n in range(8)]
    path = log / "00000001.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in records))
    size = path.stat().st_size
    known = FileChunks([str(log / "*.jsonl")], str(chunks), 300)
    before = known.poll(1)
    assert before > 1, "several chunks"
    mine = subject()
    done = erased(record_log_place("payments", log, "id", chunks), mine)
    assert (done.gone, mine.ids["payments"], path.stat().st_size) == (2, {"p00000", "p00005"}, size)
    assert not files_with(tmp_path, PERSON, "p00005")
    again = FileChunks([str(log / "*.jsonl")], str(chunks), 300)
    count = again.poll(2)
    assert count == before, "nothing is read again"
    text = b"".join(read_chunk(each) for each in again.chunks(0, count))
    assert [json.loads(line)["id"] for line in text.splitlines() if line.strip()] == [
        f"p{n:05d}" for n in (1, 2, 3, 4, 6, 7)
    ]


@pytest.mark.parametrize("columns", [False, True])
def test_outboxes_and_the_spool(tmp_path: Path, columns: bool) -> None:
    def given(batch: int) -> Delivery:
        values = delivery(batch).decisions
        made = DecisionColumns.of_values(values, [orjson.dumps(each) for each in values])
        return replace(delivery(batch), decisions=Decisions(made) if columns else values)

    outbox = OutboxSink(JsonlSink(tmp_path / "none" / "x.jsonl", "p"), tmp_path / "behind" / "jsonl-1")
    outbox.deliver(given(0))
    spool = BatchSpool(LocalFiles(tmp_path / "spool"))
    spool.put(SpooledBatch(given(7), {"payments": {"chunks": (0, 1)}}, 5))
    mine = subject()
    places = [
        StoredFilesPlace("outboxes", LocalFiles(tmp_path / "behind"), ".json", stored_files.delivery),
        StoredFilesPlace("spool", LocalFiles(tmp_path / "spool"), ".batch", stored_files.delivery),
    ]
    for place in places:
        done = erased(place, mine)
        assert (done.gone, done.changed) == (1 + 1 + 2 + 1, 2)
    assert not files_with(tmp_path, PERSON, "p00003")
    left = spool.get(7)
    assert [each["alert_id"] for each in left.delivery.alerts] == ["alert-1"]
    assert left.delivery.positions == [("f", 2)]
    assert [each["decision_id"] for each in left.delivery.decisions] == [delivery().decisions[1]["decision_id"]]
    assert (len(left.delivery.dead), left.ranges) == (1, {"payments": {"chunks": (0, 1)}})


def test_the_feed_of_the_api(tmp_path: Path) -> None:
    own, other = alert(3, key={"account_id": PERSON}), alert(1)
    lines = {"alerts": [orjson.dumps(own), orjson.dumps(other)], "decisions": [orjson.dumps(decision("d1", "allow"))]}
    write_batch(tmp_path, {"batch": 4, "ends": {}, "begins": {}}, lines)
    done = erased(StoredFilesPlace("feed", LocalFiles(tmp_path), ".jsonl", stored_files.feed), subject())
    assert done.gone == 1
    head, *rest = (tmp_path / "4.jsonl").read_bytes().splitlines()
    assert json.loads(head)["lines"]["alerts"] == 1
    assert rest[1] == lines["alerts"][1]


@pytest.mark.parametrize("signed", [True, False])
def test_receipts_lose_ids_and_their_chain_holds(
    tmp_path: Path, signed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = ledgerkit.key_files(tmp_path)
    path = tmp_path / "serve" / "ledger.db"
    clock = ledgerkit.Clock()
    more = {"signer": Signer.from_file(private)} if signed else {}
    with ledgerkit.opening(partial(SqliteLedger, path, clock_ms=clock, **more)) as made:
        ledger = made()
        ledger.claim([ledgerkit.asked(each, f'{{"of":"{each}"}}') for each in ("t1", "t2", "t3", "t4")])
        texts = {"reasons": [{"rule_id": "card_burst", "message": f"3 payments by account {PERSON}"}]}
        ledger.answer([ledgerkit.entry("t1", '{"of":"t1"}')])
        ledger.answer([ledgerkit.entry("t2", '{"of":"t2"}', **texts)])
        ledger.answer([ledgerkit.entry("t3", '{"of":"t3"}', basis=None)])
    before = receipt_of(path, ledgerkit.decision_of("t1")["decision_id"])
    mine = subject(payments={"t2", "t4"})
    done = erased(ledger_place(path.parent), mine)
    assert (done.gone, done.changed) == (1, 3), "a claim; an answer, its receipt, the receipt of t1 with t2 in evidence"
    assert not files_with(path.parent, PERSON, "t2", "t4")
    verifier = Verifier.from_file(public) if signed else None
    check = check_ledger(path, verifier)
    assert (check.faults, check.erased, sum(check.chains.values())) == ([], 2, 3)
    after = receipt_of(path, ledgerkit.decision_of("t1")["decision_id"])
    assert before is not None
    assert after is not None
    assert after["figures"][0]["record_ids"] == ["t1", mine.pseudonym("t2")]
    assert after["record_digest"] == before["record_digest"], "that of a record of others"
    same = ("digest", "previous", "sequence", "decision", "signature", "rules")
    assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
    assert not faults_of(after, verifier)
    assert faults_of({**after, "erased": False}, verifier), "without the mark it is altered"
    for receipt, result in ((after, "erased"), (before, "whole")):
        (tmp_path / "receipt.json").write_bytes(orjson.dumps(receipt))
        assert run_command(["verify", str(tmp_path / "receipt.json"), "--ledger", str(path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["result"] == result


def test_keys_of_sensitive_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is asked for by the value; the records have its token, which is looked for too."""
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", "k" * 43)
    text = SENSITIVE.format(path=tmp_path / "tokens.db")
    streams = load_streams(text, "stream.yaml")
    made = {value: key_as_tokens(streams, {"account_id": value}, make=True)["account_id"] for value in (PERSON, "a2")}
    asked = (Key("account_id", PERSON), Key("amount", "7"))
    assert with_tokens(streams, asked) == (asked[0], Key("account_id", made[PERSON]), asked[1])
    mine = Subject(with_tokens(streams, asked), b"salt")
    place = TokenKeysPlace(streams)
    assert place.find(mine) == Counts(gone=1)
    assert erased(place, mine) == Counts(gone=1)
    assert not place.find(mine).found
    assert with_tokens(streams, asked) == asked, "nobody can make the token any more"
    assert key_as_tokens(streams, {"account_id": "a2"}, make=False) == {"account_id": made["a2"]}


SENSITIVE = """\
schema_version: 1
tokens: {{path: {path}}}
streams:
  payments:
    id: id
    event_time: {{field: at}}
    fields: {{id: string, at: integer, account_id: string, amount: integer}}
    sensitive: {{account_id: {{}}}}
"""


def test_labels_and_cases(tmp_path: Path) -> None:
    harness = casekit.Harness(tmp_path)
    harness.take(casekit.alert("x1", account=PERSON), casekit.alert("y1", account="a2"))
    for record, is_fraud in (("r-x1", True), ("r-y1", False)):
        harness.cases.put_label("payments", record, is_fraud=is_fraud, known_ms=1, reason="seen", who="ines")
    harness.close()
    assert files_with(tmp_path, PERSON), "not tested"
    mine = subject()
    done = erased(cases_place(tmp_path / "serve"), mine)
    assert done.gone >= 4, "alert, its place in the case, key, tie, label"
    assert not files_with(tmp_path, PERSON, "r-x1")
    again = casekit.Harness(tmp_path)
    try:
        assert [each.record_id for each in again.cases.labels()] == ["r-y1"]
        assert [each["alert_id"] for each in search_all(again.cases.file, "burst", 9).alerts] == ["y1"]
        assert not search_all(again.cases.file, PERSON, 9).alerts
    finally:
        again.close()
