"""The audit trail: newest first, filtered by who, what, when and how it ended; pages without a gap."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crossline.serve.access.audit import AuditLog
from crossline.serve.console.pages.audit import trail
from crossline.serve.console.pages.audit.trail import TrailQuery, find

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
    found = find(tmp_path / "audit.jsonl", TrailQuery(), 50)
    assert (found.events, found.older, found.looked) == ((), 0, 0)


def test_half_a_line_is_left_out(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        written(at, 2)
        with at.parts.audit.path.open("ab") as file:
            file.write(b'{"sequence": 9')
        assert [each.resource for each in find(at.parts.audit.path, TrailQuery(), 50).events] == [
            "payments/t1",
            "payments/t0",
        ]


def log_of(folder: Path, count: int, rotate_bytes: int = 3_000) -> Path:
    """A log in several files, of writes 1, 3, 5, …; each ends in the line behind it, but for the third.

    That one ends behind all others.
    """
    log = AuditLog(folder, lambda: NOW_MS, rotate_bytes)
    late = 0
    for number in range(count):
        begun = log.begin(who("ines.vale"), "PUT", "/v1/labels", f"payments/t{number}")
        if number == 2:
            late = begun
        else:
            log.end(begun, "done")
    log.end(late, "failed")
    return log.path


def test_a_page_goes_on_where_the_last_one_stopped_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_of(tmp_path / "audit", 40)
    assert len(list(path.parent.iterdir())) > 3
    monkeypatch.setattr(trail, "LOOKED_MAX", 7)
    seen, before, pages = [], 0, 0
    while pages == 0 or before:
        found = find(path, TrailQuery(before=before), 50)
        assert found.looked <= 7
        seen += [(each.resource, each.outcome) for each in found.events]
        before, pages = found.older, pages + 1
    # 80 lines, 7 a page.
    assert pages == 12
    assert seen == [(f"payments/t{each}", "failed" if each == 2 else "done") for each in reversed(range(40))]


def test_every_place_of_a_log_is_found(tmp_path: Path) -> None:
    path = log_of(tmp_path / "audit", 12, rotate_bytes=1_200)
    # Half a line in the midst, as a kill and the next start leave it.
    with path.open("ab") as file:
        file.write(b'{"sequence": 9')
    log = AuditLog(path.parent, lambda: NOW_MS, 10**9)
    log.end(log.begin(who("mary"), "PUT", "/v1/labels", "payments/t99"), "done")
    numbers = [each.number for each in find(path, TrailQuery(), 50).events]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 13
    for before in range(1, max(numbers) + 3):
        found = find(path, TrailQuery(before=before), 50)
        assert [each.number for each in found.events] == [each for each in numbers if each < before]


def test_nothing_found_says_how_far_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with room(tmp_path) as at:
        written(at, 9)
        monkeypatch.setattr(trail, "LOOKED_MAX", 10)
        seat = at.seated("olga.ops", "operator")
        text = seat.get("/audit?who=tomas.brandt&what=t0").text
        assert "10 lines were looked through; older ones were not yet." in text
        assert 'rel="next"' in text
