"""The clock leaps 90 days ahead, and back: nothing that is kept by its age goes, and no user is locked out."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.io.feed.files import write_batch
from crossline.serve.console.accounts.login_attempts import Tries
from crossline.serve.console.accounts.sessions import Sessions
from crossline.serve.console.accounts.store import kept_in
from crossline.serve.console.accounts.users import UserFile
from crossline.serve.feed.reader import FeedReader
from crossline.serve.http.idempotency import ResponseStore
from crossline.serve.http.problems import ProblemError
from crossline.serve.ledger.sqlite import SqliteLedger
from crossline.serve.recovery import _since_ms
from crossline.serve.replica.answers import ReplicaLimits
from crossline.serve.replica.forks import CheckpointReader, Fork
from crossline.serve.replica.messages import FORK, Hello
from crossline.serve.steady_clock import SteadyClock

from .console.kit import FAST, PASSWORD
from .ledger.ledgerkit import asked, entry

NOW_MS, LEAP_MS, DAY_MS, MINUTE_MS = 1_767_225_600_000, 90 * 86_400_000, 86_400_000, 60_000


class Machine:
    """A wall clock that a test sets, and the machine's own count."""

    def __init__(self) -> None:
        self.wall_ms, self.count_s = NOW_MS, 50.0

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.count_s += ms / 1000

    def steady(self, known_ms: int | None = None) -> SteadyClock:
        return SteadyClock(lambda: self.wall_ms, lambda: self.count_s, known_ms)


def test_an_api_that_did_not_run_for_a_while_does_not_warn_of_a_leap() -> None:
    """Its next start cannot tell both apart, so it says both; a leap while it runs is one."""
    machine = Machine()
    with capture_logs() as logs:
        clock = machine.steady(known_ms=NOW_MS - 10 * MINUTE_MS)
        assert clock() == NOW_MS - 10 * MINUTE_MS
        machine.passes(5_000)
        assert clock() == NOW_MS - 10 * MINUTE_MS + 5_000
    assert [(each["log_level"], each["by_ms"]) for each in logs] == [("info", 10 * MINUTE_MS)]
    with capture_logs() as logs:
        clock = machine.steady(known_ms=machine.wall_ms)
        clock()
        machine.wall_ms += LEAP_MS
        clock()
    assert [(each["log_level"], each["by_ms"]) for each in logs] == [("warning", LEAP_MS)]


def test_a_leap_forward_is_not_believed_and_one_back_is() -> None:
    machine = Machine()
    clock = machine.steady()
    machine.passes(10_000)
    assert clock() == NOW_MS + 10_000
    machine.wall_ms += LEAP_MS
    machine.passes(5_000)
    assert clock() == NOW_MS + 15_000
    machine.wall_ms -= LEAP_MS
    assert clock() == NOW_MS + 15_000
    machine.wall_ms += 40_000  # as clocks are set each day
    assert clock() == NOW_MS + 55_000
    machine.wall_ms -= LEAP_MS
    machine.passes(1_000)
    assert clock() == NOW_MS + 56_000 - LEAP_MS
    machine.wall_ms += LEAP_MS
    assert clock() == NOW_MS + 56_000 - LEAP_MS


def test_a_leap_that_lasts_a_day_is_the_truth() -> None:
    machine = Machine()
    clock = machine.steady()
    machine.wall_ms += LEAP_MS
    assert clock() == NOW_MS
    machine.passes(DAY_MS - 1)
    assert clock() == NOW_MS + DAY_MS - 1
    machine.passes(1)
    assert clock() == NOW_MS + LEAP_MS + DAY_MS
    machine.passes(1)
    assert clock() == NOW_MS + LEAP_MS + DAY_MS + 1


def test_answers_are_kept_over_a_leap_also_one_before_the_start(tmp_path: Path) -> None:
    machine = Machine()
    keep_ms = 30 * DAY_MS
    for restarted in (False, True):
        with closing(SqliteLedger(tmp_path / f"{restarted}.db", clock_ms=lambda: machine.wall_ms)) as ledger:
            assert ledger.newest_ms() is None
            ledger.answer([entry("t1"), entry("t2")])
            assert ledger.newest_ms() == machine.wall_ms
            ages_ms = machine.steady(ledger.newest_ms())
            machine.wall_ms += LEAP_MS
            if restarted:
                ages_ms = machine.steady(ledger.newest_ms())
            assert ledger.expire(ages_ms() - keep_ms) == 0
            machine.wall_ms -= LEAP_MS
            assert ledger.expire(ages_ms() - keep_ms) == 0
            assert ledger.claim([asked("t1")])[0].outcome == "answered"


def test_a_claim_of_a_time_to_come_locks_its_id_for_no_longer_than_others(tmp_path: Path) -> None:
    """It was made while the clock was ahead, by a process that lives and will never answer it."""
    machine = Machine()
    given = {"clock_ms": lambda: machine.wall_ms, "claim_ms_max": 1_000}
    with (
        closing(SqliteLedger(tmp_path / "ledger.db", **given)) as one,  # type: ignore[arg-type]
        closing(SqliteLedger(tmp_path / "ledger.db", **given)) as two,  # type: ignore[arg-type]
    ):
        machine.wall_ms += LEAP_MS
        assert one.claim([asked("t1")])[0].outcome == "fresh"
        machine.wall_ms -= 500
        assert two.claim([asked("t1")])[0].outcome == "pending"
        machine.wall_ms -= LEAP_MS
        assert two.claim([asked("t1")])[0].outcome == "fresh"


def test_writes_are_known_again_over_a_leap(tmp_path: Path) -> None:
    machine = Machine()

    answers = ResponseStore(tmp_path / "answers.db", machine.steady())
    assert answers.claim("ann", "k1", "d1") is None
    machine.wall_ms += LEAP_MS
    assert answers.claim("ann", "k2", "d2") is None
    machine.wall_ms -= LEAP_MS
    assert answers.claim("ann", "k3", "d3") is None
    rows = answers._connection.execute("SELECT key FROM answers ORDER BY key").fetchall()
    assert [row[0] for row in rows] == ["k1", "k2", "k3"]
    answers.close()


def test_writes_are_known_again_where_processes_start_under_a_wrong_clock(tmp_path: Path) -> None:
    machine = Machine()

    def started() -> ResponseStore:
        return ResponseStore(tmp_path / "answers.db", lambda: machine.wall_ms, lambda: machine.count_s)

    def keys() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "answers.db")) as db:
            return [row[0] for row in db.execute("SELECT key FROM answers ORDER BY key")]

    answers = started()
    assert answers.claim("ann", "k1", "d1") is None
    answers.close()
    machine.wall_ms += LEAP_MS
    for number in (2, 3):  # one after the other, both under the wrong clock
        machine.passes(MINUTE_MS)
        answers = started()
        assert answers.claim("ann", f"k{number}", "d") is None
        answers.close()
    machine.wall_ms -= LEAP_MS
    answers = started()
    assert answers.claim("ann", "k4", "d") is None
    assert keys() == ["k1", "k2", "k3", "k4"]
    for number in (5, 6):  # a day until the clock is believed, and one from then
        machine.passes(DAY_MS + MINUTE_MS)
        assert answers.claim("ann", f"k{number}", "d") is None
    assert keys() == ["k6"], "they go all the same"
    answers.close()


def test_what_was_noted_before_a_leap_was_believed_is_kept_a_day_from_then(tmp_path: Path) -> None:
    machine = Machine()
    answers = ResponseStore(tmp_path / "answers.db", lambda: machine.wall_ms, lambda: machine.count_s)
    assert answers.claim("ann", "k1", "d") is None
    machine.wall_ms += 5 * DAY_MS  # it slept, and its clock is right
    machine.passes(MINUTE_MS)
    assert answers.claim("ann", "k2", "d") is None
    machine.passes(DAY_MS - MINUTE_MS)
    assert answers.claim("ann", "k3", "d") is None
    machine.passes(MINUTE_MS)
    with pytest.raises(ProblemError, match="still being answered"):
        answers.claim("ann", "k3", "d")
    machine.passes(DAY_MS + MINUTE_MS)
    assert answers.claim("ann", "k3", "other") is None
    answers.close()


def test_failed_tries_dated_ahead_lock_no_user_out(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    for _ in range(5):
        assert tries.take("ines.vale", "10.0.0.1", NOW_MS + LEAP_MS).made
    assert not tries.take("ines.vale", "10.0.0.1", NOW_MS + LEAP_MS).made
    assert tries.take("ines.vale", "10.0.0.1", NOW_MS).made


def test_sessions_of_a_time_to_come_are_over_and_a_password_of_then_lets_in_now(tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users.db", FAST)
    users.create("ines.vale", ["analyst"], PASSWORD, now_ms=NOW_MS)
    sessions = Sessions(kept_in(tmp_path), users)
    before = sessions.begin("ines.vale", "local", ["analyst"], NOW_MS + 1)
    users.set_password("ines.vale", PASSWORD + "2", now_ms=NOW_MS + LEAP_MS)
    ahead = sessions.begin("ines.vale", "local", ["analyst"], NOW_MS + LEAP_MS)
    later_ms = NOW_MS + MINUTE_MS
    assert sessions.find(ahead, NOW_MS + LEAP_MS + MINUTE_MS, used=False) is not None
    assert sessions.find(ahead, later_ms, used=False) is None
    now = sessions.begin("ines.vale", "local", ["analyst"], later_ms)
    assert sessions.find(now, later_ms, used=False) is not None
    assert sessions.find(before, later_ms, used=False) is None, "it began before the password"


class Leaping:
    """``time.time`` of the machine, set by so much."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_s, real = 0.0, time.time
        monkeypatch.setattr(time, "time", lambda: real() + self.by_s)


def test_how_old_the_state_is_and_how_far_behind_do_not_leap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Leaping(monkeypatch)
    for log, number in (("commits", 7), ("offsets", 7), ("offsets", 8)):
        folder = tmp_path / "spark" / log
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(number)).write_text("v1")
        dated_s = time.time() - 20
        os.utime(folder / str(number), (dated_s, dated_s))

    def fork() -> Fork:
        return Fork(Hello(FORK, 0, 1, 7), None, None, str(tmp_path))  # type: ignore[arg-type]

    behind = CheckpointReader(str(tmp_path), ReplicaLimits(behind_max_ms=1_000_000))
    first = fork()
    assert 20_000 <= behind.lag(first).ms < 900_000
    for by_s in (LEAP_MS / 1000, -LEAP_MS / 1000):
        clock.by_s = by_s
        again = fork()
        lag = behind.lag(again)
        assert 20_000 <= lag.ms < 900_000
        assert lag.ready
        assert 20 <= time.monotonic() - again.as_of_s < 900
        assert again.planned_s == first.planned_s


def test_answers_after_the_clock_was_set_back_are_held_to_their_batches(tmp_path: Path) -> None:
    """The batch behind which they are looked for was planned while the clock was ahead."""
    for number, planned_ms in enumerate((NOW_MS + LEAP_MS, NOW_MS + 5, NOW_MS + 10)):
        head = {"batch": number, "planned_ms": planned_ms, "ends": {}, "begins": {}}
        write_batch(tmp_path, head, {})

    async def begin() -> Any:
        reader = FeedReader(tmp_path)
        try:
            return await reader.batch(0)
        finally:
            await reader.close()

    assert _since_ms(tmp_path, asyncio.run(begin())) == NOW_MS + 5 - MINUTE_MS
    assert _since_ms(tmp_path, None) == 0
