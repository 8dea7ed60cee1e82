"""Decisions: the list pages without a gap, one says what was answered, why, what became of it, and its receipt."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.serve.console.app import Console
from serve.http.kit import FakeLedger

from ..kit import Room, room  # noqa: TID252 - the kit of the console's tests


def decided(number: int, **more: object) -> dict[str, object]:
    caption = {
        "schema_version": 1,
        "decision_id": f"d{number:04}",
        "kind": "decision",
        "revision": 0,
        "stream": "payments",
        "record_id": f"p{number:04}",
        "decision": "block" if number % 2 else "allow",
        "score": 60,
        "reasons": [{"rule_id": "many_senders", "rule_version": 3, "message": "6 senders <b>", "score": 60}],
        "policy_version": 2,
        "rules_digest": "e361e34baa6dc0d5ff18bcc07aec896d",
        "event_time": f"2026-11-24T05:{number // 60:02}:{number % 60:02}.000Z",
        "ingest_time": "2026-11-24T05:00:00.000Z",
        "decided_at": "2026-11-24T06:04:00.118Z",
        "answered": "exact",
        "degraded": [],
    }
    return {**caption, **more}


def delivered(at: Room, *decisions: dict[str, object]) -> None:
    sink = SqliteSink(at.folder / "crossline.db", "payments")
    sink.open()
    sink.deliver(Delivery("payments", 0, decisions=list(decisions)))
    sink.close()


def test_pages_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        assert "Nothing was decided yet." in seat.get("/decisions").text
        delivered(at, *(decided(number) for number in range(120)))
        seen: list[str] = []
        address = "/decisions"
        while address:
            text = seat.get(address).text
            seen += re.findall(r'href="/decisions/d\d+">(p\d+)<', text)
            older = re.search(r'href="([^"]+)" rel="next"', text)
            address = older[1].replace("&amp;", "&") if older else ""
        assert seen == [f"p{number:04}" for number in reversed(range(120))]
        assert seat.get("/decisions?decision=block&record=p0003").text.count('class="dec block"') == 1
        assert "No decision matches." in seat.get("/decisions?decision=block&record=p0002").text
        assert seat.get("/decisions?decision=nothing").status_code == 422
        assert seat.get("/decisions?before=nothing").status_code == 400


def test_one_decision_with_its_revision_and_receipt(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        revision = decided(7, kind="revision", decision_id="r1", revises="d0007", decision="allow", because="c0099")
        ledger = FakeLedger(
            {"d0007": decided(7)}, {"d0007": [revision]}, {"d0007": {"digest": "ab" * 32, "key_id": None}}
        )
        at.app._console = Console(replace(at.parts, deps=replace(at.parts.deps, decisions=ledger)))
        seat = at.seated("ines.vale")
        text = seat.get("/decisions/d0007").text
        assert "revised 1 time" in text
        assert re.findall(r'class="dec (\w+)"', text) == [
            "allow",
            "block",
            "allow",
        ]  # now, then, since
        assert "correction c0099" in text
        assert "many_senders, version 3" in text
        assert "6 senders &lt;b&gt;" in text
        assert "&#34;key_id&#34;: null" in text
        assert re.search(r"<time [^>]*>06:04:00\.118</time>", text)
        assert seat.get("/decisions/d0008").status_code in {404, 400}
        assert (
            at.seated("tomas", "service").get("/decisions/d0007").status_code == 200
        )  # of a stream that it asks about
