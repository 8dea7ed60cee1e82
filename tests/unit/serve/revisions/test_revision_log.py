"""Revisions of answers as a listener gets them: in order, once, from its position, of all writers."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import aclosing, closing
from pathlib import Path

import orjson
import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.serve.revisions import revision_log
from crossline.serve.revisions.revision_log import RevisedGoneError, RevisedLog
from crossline.serve.revisions.values import Revision


def revision(number: int) -> Revision:
    return Revision(f"r{number}", "payments", f"t{number}", {"revision_id": f"r{number}", "stream": "payments"})


def names(found: list[tuple[int, bytes]]) -> list[str]:
    return [orjson.loads(body)["revision_id"] for _, body in found]


def test_they_are_numbered_in_their_order_and_once(tmp_path: Path) -> None:
    log = RevisedLog(tmp_path / "revised.db")
    assert (log.last(), log.behind(0)) == (0, [])
    log.put([revision(1), revision(2)])
    log.put([revision(2), revision(3)])
    assert names(log.behind(0)) == ["r1", "r2", "r3"]
    second = log.behind(0)[1][0]
    again = RevisedLog(tmp_path / "revised.db")
    assert (names(again.behind(second)), again.behind(again.last())) == (["r3"], [])


def test_what_is_not_kept_is_reported(tmp_path: Path) -> None:
    log = RevisedLog(tmp_path / "revised.db", kept_max=2)
    for number in range(1, 6):
        log.put([revision(number)])
    assert names(log.behind(log.last() - 2)) == ["r4", "r5"]
    for number in (0, 1, 2, 99):  # gone, or of another file
        with pytest.raises(RevisedGoneError, match=f"behind number {number} "):
            log.behind(number)


def test_a_file_that_is_none_is_reported_and_one_that_is_held_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision_log, "BUSY_S", 0.0)
    log = RevisedLog(tmp_path / "revised.db")
    with closing(sqlite3.connect(tmp_path / "revised.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RetryableError, match="locked"):
            log.put([revision(1)])
    log.put([revision(1)])
    for each in tmp_path.glob("revised.db*"):
        each.write_bytes(b"no database, and long enough to be read as one" * 100)
    with pytest.raises(StateError, match=r"revised\.db: found no list of revisions.*move it away"):
        log.put([revision(2)])


def test_who_follows_is_reported_at_once_and_of_what_others_put_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision_log, "LOOK_S", 0.01)

    async def work() -> None:
        mine, others = RevisedLog(tmp_path / "revised.db"), RevisedLog(tmp_path / "revised.db")
        mine.put([revision(1)])
        async with aclosing(mine.follow(0)) as first, aclosing(mine.follow(mine.last())) as second:
            assert names([await anext(first)]) == ["r1"]
            waiting = [asyncio.create_task(anext(each)) for each in (first, second)]
            await asyncio.sleep(0)
            mine.put([revision(2)])
            mine.notify()
            assert names([await each for each in waiting]) == ["r2", "r2"]
            waiting = [asyncio.create_task(anext(each)) for each in (first, second)]
            others.put([revision(3)])
            assert names([await each for each in waiting]) == ["r3", "r3"]
            assert mine._watching is not None
        assert mine._watching is None, "without a listener there is no polling"

    asyncio.run(work())


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    RevisedLog(tmp_path / "revised.db")
    assert (tmp_path / "revised.db").stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(tmp_path / "revised.db")) as connection:
        assert connection.execute("SELECT count(*) FROM revised").fetchone() == (0,)
