"""Dead letters over HTTP: read back from where they are kept, mended, sent again once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.http.kit import NOW_MS, Client, client_of, detail

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import RetryableError
from crossline.basics.streams.api_record import LogPosition, SubmittedRecord
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.sinks.base import Delivery
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.dead_letters import stores
from crossline.serve.dead_letters.repair import JsonRepair
from crossline.serve.dead_letters.resend import DeadLetters, Resender, ResendTarget
from crossline.serve.dead_letters.resend_log import Resent, ResentFile
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.http.deps import Dependencies
from crossline.settings.config import load_pipeline

STREAM = """\
schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
  logins: {format: csv, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""
PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: api, path: in}, logins: {kind: files, path: logins}}
rules: {kind: directory, path: rules}
sinks: [%s]
"""
SQLITE = "{kind: sqlite, path: %s/crossline.db}"
JSONL = "{kind: jsonl, path: %s/alerts.jsonl, dead_letters: %s/dead.jsonl}"
KAFKA = '{kind: kafka, brokers: "127.0.0.1:1", topic: alerts, dead_letter_topic: dead}'
LETTERS = [
    DeadLetter("payments", "malformed_json", "unexpected end", "00000001.jsonl", 0, b'{"id":"p1","at":1'),
    DeadLetter("payments", "bad_encoding", "not UTF-8", "00000001.jsonl", 18, b'{"id":"\xff\x00\x1b[31m"}'),
    DeadLetter("payments", "wrong_type", "field at: found text", "00000001.jsonl", 40, b'{"id":"p3","at":"x"}', "p3"),
    DeadLetter("logins", "malformed_csv", "3 fields", "logins/a.csv", 7, b"a,b,c"),
    DeadLetter("payments", "duplicate_id", "came before", "00000001.jsonl", 61, None, "p3"),
]
GOOD = f'{{"id": "p1",\n "at": {NOW_MS}}}'


class Held:
    """A record log whose answer waits, or fails, as a test says."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.asked: list[SubmittedRecord] = []

    async def append(self, asked: Any) -> list[LogPosition]:
        self.asked += asked
        if self.error is not None:
            raise self.error
        return [LogPosition("payments-0", 7) for _ in asked]

    async def close(self) -> None:
        """Nothing is held."""


@contextmanager
def client(folder: Path, sink: str = SQLITE, log: Any = None) -> Iterator[Client]:
    """The API over a pipeline whose sink has ``LETTERS``."""
    named = sink.replace("%s", str(folder))
    config = load_pipeline(PIPELINE % named, "pipeline.yaml", lambda _: STREAM)
    delivery = Delivery("payments", 0, dead=LETTERS)
    if sink != KAFKA:
        made: Any = (
            SqliteSink(folder / "crossline.db", "payments")
            if sink == SQLITE
            else JsonlSink(folder / "alerts.jsonl", "payments", folder / "dead.jsonl")
        )
        made.open()
        made.deliver(delivery)
        made.close()
    (folder / "serve").mkdir(exist_ok=True)
    resent = ResentFile(folder / "serve/resent.db")
    records = StreamRecords(config.streams)
    file_log = FileRecordLog(folder / "in", "id") if log is None else log
    ways = {"payments": ResendTarget(JsonRepair(records, "payments"), file_log)}
    dead = DeadLetters(resent, Resender(config.streams, ways, resent, lambda: NOW_MS))
    deps = Dependencies(folder / "pipeline.yaml", config, folder / "serve", dead=dead, now_ms=lambda: NOW_MS)
    with client_of(deps) as at:
        yield at
    asyncio.run(file_log.close())
    resent.close()


def listed(at: Client, query: str = "") -> list[dict[str, Any]]:
    answer = at.get(f"/v1/dead-letters{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def resend(at: Client, letter: dict[str, Any], record: str = GOOD) -> Any:
    return at.post(f"/v1/dead-letters/{letter['id']}:resend", json={"record": record})


@pytest.mark.parametrize("sink", [SQLITE, JSONL])
def test_letters_are_reported_the_latest_first_with_their_bytes(tmp_path: Path, sink: str) -> None:
    with client(tmp_path, sink) as at:
        items = listed(at)
        assert [(each["reason"], each["partition"], each["offset"]) for each in items] == [
            (each.reason, each.partition, each.offset) for each in reversed(LETTERS)
        ]
        by_reason = {each["reason"]: each for each in items}
        assert by_reason["malformed_json"]["raw"] == '{"id":"p1","at":1'
        odd = by_reason["bad_encoding"]
        assert (odd["raw"], odd["bytes"], odd["cut"]) == (None, 16, False)
        assert base64.b64decode(odd["raw_base64"]) == LETTERS[1].raw
        assert (by_reason["duplicate_id"]["bytes"], by_reason["duplicate_id"]["raw"]) == (None, None)
        body = at.get("/v1/dead-letters?limit=1").json()
        assert body["counts"] == [
            {"reason": name, "count": 1, "open": 1}
            for name in ("bad_encoding", "duplicate_id", "malformed_csv", "malformed_json", "wrong_type")
        ]
        assert (body["counted_all"], body["missing"]) == (True, None)


@pytest.mark.parametrize("sink", [SQLITE, JSONL])
def test_pages_neither_repeat_nor_skip(tmp_path: Path, sink: str) -> None:
    with client(tmp_path, sink) as at:
        found, cursor = [], ""
        for _ in range(4):
            body = at.get(f"/v1/dead-letters?limit=2{cursor}").json()
            found += [each["reason"] for each in body["items"]]
            if body["next_cursor"] is None:
                break
            cursor = f"&cursor={body['next_cursor']}"
        assert found == [each.reason for each in reversed(LETTERS)]
        assert [each["offset"] for each in listed(at, "?reason=wrong_type")] == [40]
        assert listed(at, "?reason=bad_time") == []
        other = at.get(f"/v1/dead-letters?reason=wrong_type{cursor}")
        assert "another list" in detail(other, 400)


def test_one_look_goes_through_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "LOOKED_AT_MAX", 2)
    with client(tmp_path) as at:
        body = at.get("/v1/dead-letters?reason=malformed_json").json()
        assert (body["items"], body["counted_all"], len(body["counts"])) == ([], False, 2)
        body = at.get(f"/v1/dead-letters?reason=malformed_json&cursor={body['next_cursor']}").json()
        body = at.get(f"/v1/dead-letters?reason=malformed_json&cursor={body['next_cursor']}").json()
        assert [each["offset"] for each in body["items"]] == [0]
        assert body["next_cursor"] is None


def test_a_sink_that_cannot_be_read_back_is_stated(tmp_path: Path) -> None:
    with client(tmp_path, KAFKA) as at:
        body = at.get("/v1/dead-letters").json()
        assert (body["items"], body["kept_in"]) == ([], None)
        assert "they go to the topic dead alone" in body["missing"]
        assert detail(at.get("/v1/dead-letters/1-0000000000000000"), 404)


def test_a_store_that_is_not_made_yet_has_none(tmp_path: Path) -> None:
    with client(tmp_path) as at:
        (tmp_path / "crossline.db").unlink()
        assert at.get("/v1/dead-letters").json()["counts"] == []


@pytest.mark.parametrize("sink", [SQLITE, JSONL])
def test_a_mended_one_is_sent_once(tmp_path: Path, sink: str) -> None:
    with client(tmp_path, sink) as at:
        (letter,) = listed(at, "?reason=malformed_json")
        answer = resend(at, letter)
        assert answer.status_code == 200, answer.text
        sent = answer.json()["sent"]
        assert (sent["by"], sent["at"], sent["record_id"]) == ("mary", "2026-01-05T09:15:00.000Z", "p1")
        assert (sent["partition"], sent["offset"]) == ("00000001.jsonl", 0)
        assert (tmp_path / "in/00000001.jsonl").read_text() == f'{{"id": "p1",  "at": {NOW_MS}}}\n'
        assert "mary sent it again already, as record p1" in detail(resend(at, letter), 409)
        assert "sent it again already" in detail(resend(at, letter, GOOD.replace("p1", "p9")), 409)
        assert (tmp_path / "in/00000001.jsonl").read_text().count("\n") == 1
        assert listed(at, "?reason=malformed_json&state=open") == []
        assert [each["sent"]["by"] for each in listed(at, "?state=sent")] == ["mary"]
        counts = at.get("/v1/dead-letters").json()["counts"]
        assert {"reason": "malformed_json", "count": 1, "open": 0} in counts
        assert at.get(f"/v1/dead-letters/{letter['id']}").json()["why_not"] == "it was sent again"


def test_what_would_be_refused_again_is_not_sent(tmp_path: Path) -> None:
    with client(tmp_path) as at:
        (letter,) = listed(at, "?reason=wrong_type")
        for record, why in {
            '{"id":"p3"': "malformed_json", '{"id":"p3","at":"x"}': "wrong_type", '{"id":"","at":1}': "missing_field",
            "": "malformed_json", '{"id":"p3","at":1e400}': "wrong_type",
        }.items():  # fmt: skip
            answer = resend(at, letter, record)
            assert why in detail(answer, 422), record
            assert answer.json()["errors"][0]["pointer"] == "/record"
        half = at.post(f"/v1/dead-letters/{letter['id']}:resend", content=b'{"record": "\\ud800"}')
        assert half.status_code == 422
        assert not list((tmp_path / "in").glob("*.jsonl"))
        assert listed(at, "?reason=wrong_type")[0]["sent"] is None


def test_a_record_whose_id_the_stream_has_is_not_taken_for_it(tmp_path: Path) -> None:
    with client(tmp_path) as at:
        first, second = listed(at, "?reason=malformed_json")[0], listed(at, "?reason=wrong_type")[0]
        assert resend(at, first).status_code == 200
        taken = resend(at, second, GOOD.replace(str(NOW_MS), str(NOW_MS - 1)))
        assert "found record p1 in the stream already" in detail(taken, 409)
        assert resend(at, second, GOOD.replace("p1", "p3")).status_code == 200


def test_what_takes_none_says_why(tmp_path: Path) -> None:
    with client(tmp_path) as at:
        (letter,) = listed(at, "?reason=malformed_csv")
        why = at.get(f"/v1/dead-letters/{letter['id']}").json()["why_not"]
        assert why == "records of logins are of csv, and are mended as JSON alone"
        assert why in detail(resend(at, letter), 400)
        number, _, mark = letter["id"].partition("-")
        for name in (f"{number}-{'0' * 16}", f"99-{mark}", number, "x-y", f"{'9' * 40}-{mark}"):
            assert detail(at.post(f"/v1/dead-letters/{name}:resend", json={"record": GOOD}), 404)


def test_where_the_log_fails_the_same_bytes_may_be_sent_again(tmp_path: Path) -> None:
    log = Held(RetryableError("the brokers do not answer"))
    with client(tmp_path, log=log) as at:
        (letter,) = listed(at, "?reason=malformed_json")
        assert detail(resend(at, letter), 503)
        assert listed(at, "?reason=malformed_json")[0]["sent"] is None
        assert "Expected the same bytes" in detail(resend(at, letter, GOOD.replace("p1", "p2")), 409)
        log.error = None
        assert resend(at, letter).json()["sent"]["partition"] == "payments-0"
        assert [each.record_id for each in log.asked] == ["p1", "p1"]


def test_what_was_sent_is_known_after_a_restart(tmp_path: Path) -> None:
    one = Resent("ab", "bad_time", "payments", "p1", "d", b"{}", "mary", NOW_MS)
    file = ResentFile(tmp_path / "resent.db")
    assert file.begin(one) == one
    assert file.begin(replace(one, who="tom", digest="e")) == one
    file.forget("ab")
    assert file.begin(replace(one, who="tom")).who == "tom"
    file.done("ab", "00000001.jsonl", 7)
    file.forget("ab")
    file.close()
    again = ResentFile(tmp_path / "resent.db")
    assert again.of(["ab", "cd"])["ab"].place == 7
    assert again.counts() == {"bad_time": 1}
    assert (tmp_path / "resent.db").stat().st_mode & 0o777 == 0o600
    again.close()
