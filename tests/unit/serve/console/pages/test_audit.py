"""The audit trail: newest first, filtered by who, what, when and how it ended; pages without a gap."""

from __future__ import annotations

import re
from pathlib import Path

from crossline.serve.console.pages.audit.trail import Wanted, find

from ..kit import NOW_MS, Room, room, who  # noqa: TID252 - the kit of the console's tests

DAY_MS = 86_400_000


def written(at: Room, count: int) -> None:
    for number in range(count):
        at.clock.now_ms = NOW_MS - (count - number) * 60_000
        name = "ines.vale" if number % 3 else "tomas.brandt"
        with at.parts.audit.write(who(name), "PUT", "/v1/labels/{stream}", f"payments/t{number}", before=None) as write:
            write.after = {"is_fraud": True}
    at.clock.now_ms = NOW_MS


def shown(text: str) -> list[str]:
    return re.findall(r">payments/(t\d+)<", text)


def test_pages_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        written(at, 53)
        seat = at.seated("olga.ops", "operator")
        seen: list[str] = []
        address = "/audit?what=labels"
        while address:
            text = seat.get(address).text
            seen += shown(text)
            older = re.search(r'href="([^"]+)" rel="next"', text)
            address = older[1].replace("&amp;", "&") if older else ""
        assert seen == [f"t{number}" for number in reversed(range(53))]


def test_filters(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        written(at, 9)
        failed = at.parts.audit.begin(who("tomas.brandt"), "PUT", "/v1/lists", "watch/a1")
        at.parts.audit.end(failed, "failed", None, "the disk is full")
        at.parts.audit.begin(who("mary"), "POST", "/v1/holds", "holds/7")  # and then it was killed
        seat = at.seated("olga.ops", "operator")
        assert shown(seat.get("/audit?who=TOMAS").text) == ["t6", "t3", "t0"]
        assert "watch/a1" in seat.get("/audit?outcome=failed").text
        assert "the disk is full" in seat.get("/audit?outcome=failed").text
        assert "holds/7" in seat.get("/audit?outcome=begun").text
        assert shown(seat.get("/audit?what=t4").text) == ["t4"]
        assert shown(seat.get("/audit?since=2026-11-24").text) == [f"t{number}" for number in reversed(range(9))]
        text = seat.get("/audit?who=nobody.here&since=2026-11-25").text
        assert "No event matches." in text
        assert "Clear 2 filters" in text
        for query in ("outcome=x", "since=yesterday", "before=-1", "before=x"):
            assert seat.get(f"/audit?{query}").status_code == 422


def test_a_day_begins_in_the_zone_of_who_asks(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.clock.now_ms = NOW_MS - 7 * 3_600_000  # 23:04 of the day before in UTC, 00:04 in Berlin
        with at.parts.audit.write(who("ines.vale"), "PUT", "/v1/labels", "payments/t1"):
            pass
        at.clock.now_ms = NOW_MS
        seat = at.seated("olga.ops", "operator")
        assert shown(seat.get("/audit?since=2026-11-24").text) == []
        seat.act("/profile", {"zone": "Europe/Berlin"})
        assert shown(seat.get("/audit?since=2026-11-24").text) == ["t1"]


def test_a_trail_of_nothing(tmp_path: Path) -> None:
    found = find(tmp_path / "audit.jsonl", Wanted(), 50)
    assert (found.events, found.more, found.looked) == ((), False, 0)


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        written(at, 2)
        with at.parts.audit.path.open("ab") as file:
            file.write(b'{"sequence": 9')
        assert [each.resource for each in find(at.parts.audit.path, Wanted(), 50).events] == [
            "payments/t1",
            "payments/t0",
        ]
