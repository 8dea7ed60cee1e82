"""Dead letters as pages: hostile bytes shown safely, mended and sent again once, by who may."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.deadletter import DeadLetter
from crossline.io.recordlog.filelog import FileRecordLog
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.console.pages.dead_letters.display import draft_of, hex_lines, some_of, text_of
from crossline.serve.dead_letters.repair import JsonRepair
from crossline.serve.dead_letters.resend import DeadLetters, Resender, ResendTarget
from crossline.serve.dead_letters.resend_log import ResentFile
from crossline.serve.decisions.records import StreamRecords
from unit.serve.console import kit

HOSTILE = '{"id":"<script>alert(1)</script>","at":"\u202e\u0000\x1b[31m"}'.encode()
LETTERS = [
    DeadLetter("payments", "malformed_json", "unexpected end", "00000001.jsonl", 0, b'{"id":"p1","at":1'),
    DeadLetter("payments", "bad_time", "found <b>text</b>", "00000001.jsonl", 18, HOSTILE),
    DeadLetter("payments", "bad_encoding", "not UTF-8", "00000001.jsonl", 90, b'{"id":"\xff"}'),
]
GOOD = f'{{"id":"p1","at":{kit.NOW_MS}}}'


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Any]:
    """A console of a pipeline with ``LETTERS``, whose source takes records from here."""
    resent = ResentFile(tmp_path / "resent.db")
    config = kit.pipeline(tmp_path)
    sink = SqliteSink(tmp_path / "crossline.db", "payments")
    sink.open()
    sink.deliver(Delivery("payments", 0, dead=LETTERS))
    sink.close()
    log = FileRecordLog(tmp_path / "in", "id")
    ways = {"payments": ResendTarget(JsonRepair(StreamRecords(config.streams), "payments"), log)}
    dead = DeadLetters(resent, Resender(config.streams, ways, resent, lambda: kit.NOW_MS))
    with kit.room(tmp_path, dead=dead) as at:
        yield at
    asyncio.run(log.close())
    resent.close()


def address(seat: Any, reason: str) -> str:
    found = re.search(r'href="(/dead-letters/[^"?]+)">' + reason, seat.get(f"/dead-letters?reason={reason}").text)
    assert found is not None
    return found[1]


def test_reasons_are_counted_and_chosen(room: Any) -> None:
    olga = room.seated("olga.ops", "operator")
    page = olga.get("/dead-letters").text
    tabs = re.findall(r'<a class="chip"[^>]*>([^<]+)<b>(\d+)</b>', page)
    assert tabs == [("All reasons ", "3"), ("bad_encoding ", "1"), ("bad_time ", "1"), ("malformed_json ", "1")]
    one = olga.get("/dead-letters?reason=bad_time").text
    assert one.count("00000001.jsonl:") == 1
    assert "a text that is no RFC 3339 instant" in one
    assert "No dead letter is of this reason here." in olga.get("/dead-letters?reason=tombstone").text
    assert olga.get("/dead-letters?state=shut").status_code == 422


def test_hostile_bytes_are_shown_and_not_run(room: Any) -> None:
    olga = room.seated("olga.ops", "operator")
    for page in (olga.get("/dead-letters").text, olga.get(address(olga, "bad_time")).text):
        assert "<script>alert" not in page
        assert "<b>text" not in page
        assert not set(page) & {"\u202e", "\x00", "\x1b"}
        assert "&lt;script&gt;alert(1)" in page
        assert "\\u202e\\x00\\x1b" in page
    octets = olga.get(address(olga, "bad_encoding")).text
    assert "7b 22 69 64 22 3a 22 ff 22 7d" in octets
    assert "1 place could not be copied, and has the sign \ufffd." in octets


def test_a_mended_record_goes_into_its_stream_once(room: Any) -> None:
    olga = room.seated("olga.ops", "operator")
    path = address(olga, "malformed_json")
    assert '{"id":"p1","at":1</textarea>' in html.unescape(olga.get(path).text)
    wrong = olga.act(f"{path}/resend", {"record": '{"id":"p1","at":"<i>"}'})
    assert wrong.status_code == 422
    assert "wrong_type: field at" in wrong.text
    assert '{"id":"p1","at":"<i>"}</textarea>' in html.unescape(wrong.text)
    assert "<i>" not in wrong.text
    done = olga.act(f"{path}/resend", {"record": GOOD})
    assert (done.status_code, done.headers["location"]) == (303, path)
    assert "sent again by olga.ops" in olga.get(path).text
    assert (room.folder / "in/00000001.jsonl").read_text() == f"{GOOD}\n"
    again = olga.act(f"{path}/resend", {"record": GOOD})
    assert again.status_code == 409
    assert (room.folder / "in/00000001.jsonl").read_text() == f"{GOOD}\n"
    page = olga.get("/dead-letters").text
    assert re.findall(r'<a class="chip"[^>]*>([^<]+)<b>(\d+)</b>', page)[0] == ("All reasons ", "2")
    assert "by olga.ops" in olga.get("/dead-letters?state=sent").text


def test_sending_is_an_event_without_the_record_itself(room: Any) -> None:
    olga = room.seated("olga.ops", "operator")
    olga.act(f"{address(olga, 'malformed_json')}/resend", {"record": GOOD})
    begun, done = room.audited()[-2:]
    assert (begun["principal"], begun["by"], begun["route"]) == (
        *("olga.ops", "session"), "/v1/dead-letters/{letter_id}:resend",
    )  # fmt: skip
    assert (done["outcome"], done["after"]["sent"]["record_id"]) == ("done", "p1")
    assert not [each for each in room.audited() if "unexpected" in str(each) or '"at"' in str(each.get("after"))]


def test_who_may_not_send_sees_why_and_who_may_not_see_sees_nothing(room: Any) -> None:
    ines = room.seated("ines.vale", "analyst")
    path = address(ines, "malformed_json")
    assert "To send it again needs the scope write:records, which ines.vale has not." in ines.get(path).text
    assert ines.act(f"{path}/resend", {"record": GOOD}).status_code == 403
    vera = room.seated("vera.lux", "viewer")
    assert vera.get("/dead-letters").status_code == 403
    assert "Dead letters" not in vera.get("/profile").text
    assert not (room.folder / "in").exists()


def test_a_sink_that_cannot_be_read_back_is_stated(room: Any) -> None:
    deps = room.parts.deps
    object.__setattr__(deps, "config", replace(deps.config, sinks=[]))
    page = room.seated("olga.ops", "operator").get("/dead-letters").text
    assert "They cannot be read back." in page
    assert "no sink keeps them" in page


def test_bytes_in_hex_and_text_are_bounded() -> None:
    lines = list(hex_lines(bytes(range(256)) * 4))
    assert (len(lines), lines[-1].at, lines[2].text) == (32, "01f0", " !\"#$%&'()*+,-./")
    assert lines[0].octets == "00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f"
    assert text_of(b"a\r\nb\x00") == "a\\r\nb\\x00"
    assert text_of(b"\xff") == ""
    assert len(text_of(b"x" * 100_000)) == 16_384
    body = {"raw": "x" * 200, "raw_base64": None, "cut": False}
    assert some_of(body) == "x" * 120 + "…"
    assert some_of({"raw": None, "raw_base64": None, "cut": False}) == "its bytes were not kept"
    assert draft_of(b'{"a":1}') == ('{"a":1}', "")
    assert draft_of(b"\xff\x00b")[0] == "\ufffd\ufffdb"
    assert draft_of(None)[0] == ""
