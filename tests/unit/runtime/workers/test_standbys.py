"""Standbys are real processes here, beside state servers and elsewhere; the answers stay the twin's."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any

import psutil
import pytest

from e2e.state_server_homes import SHARDS, STATE_SERVERS, Home, batches_of, read_of, until
from e2e.traffic import Record


def standbys(home: Home) -> set[int]:
    return {pid for pid in home.state_servers() if psutil.Process(pid).name() == "cl-standby"}


def test_a_standby_takes_over_from_a_state_server_that_is_killed(home: Home, log: list[Record], twin: Any) -> None:
    """And is followed by another. Where both are killed at once, or it alone, the log is read, as without it."""
    home.cache = replace(home.cache, standby=True)
    for number, data in enumerate(batches_of(log)):
        both = number % 4 == 3
        before = home.state_servers()
        killed = before if both else before - standbys(home) if number % 2 == 0 else standbys(home)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        until(lambda gone=killed: not gone & home.state_servers())
        read = read_of(home.batch(number, data))
        if number > 2:
            assert read == ([number] * SHARDS if both else [1] * SHARDS if number % 2 == 0 else []), number
            assert len(home.state_servers()) == 2 * STATE_SERVERS
        home.until_idle("standby")
    assert home.figures() == twin
    home.end()
    until(lambda: not home.alive() and not home.place.exists())


def test_a_standby_that_does_not_answer_holds_up_no_batch(home: Home, log: list[Record], twin: Any) -> None:
    home.cache = replace(home.cache, standby=True)
    for number, data in enumerate(batches_of(log)):
        home.batch(number, data)
        if number == 2:
            home.until_idle("standby")
            frozen = standbys(home)
            assert len(frozen) == STATE_SERVERS
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
    assert standbys(home) == frozen
    assert home.figures() == twin


def test_a_standby_that_stands_still_is_not_waited_for_when_its_state_server_dies(
    home: Home, log: list[Record], twin: Any
) -> None:
    """Another state server is forked, and reads the log."""
    home.cache = replace(home.cache, standby=True)
    frozen = set[int]()
    for number, data in enumerate(batches_of(log)):
        if number == 5:
            frozen = standbys(home)
            killed = home.state_servers() - frozen
            assert len(frozen) == len(killed) == STATE_SERVERS
            for pid in frozen:
                os.kill(pid, signal.SIGSTOP)
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            until(lambda gone=killed: not gone & home.state_servers())
        read = read_of(home.batch(number, data))
        if number == 5:
            assert read == [number] * SHARDS
        if not frozen:
            home.until_idle("standby")
    assert frozen <= home.state_servers()
    assert home.figures() == twin


def test_shards_of_another_executor_are_followed_beside_those_judged_here(
    home: Home, log: list[Record], twin: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The other executor has a home of its own; once it is lost, nothing of its shards is read but the last batch."""
    mine, theirs = [0], [1, 2]
    batches = batches_of(log)
    with Home(tmp_path_factory.mktemp("other")) as other:
        other.cache = home.cache
        for number, data in enumerate(batches[:8]):
            home.batch(number, data, mine)
            other.batch(number, data, theirs)
            home.follow(number, theirs)
    home.alerts = {n: home.alerts[n] + other.alerts[n] for n in home.alerts}
    before = home.state_servers()
    for number, data in enumerate(batches[8:], 8):
        read = read_of(home.batch(number, data))
        assert read == ([1, 1] if number == 8 else []), number
    assert home.state_servers() == before
    assert len(before) == STATE_SERVERS
    assert home.figures() == twin


def test_an_executor_that_joins_has_read_all_shards_before_it_judges(
    home: Home, log: list[Record], twin: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its task ends once they are read: it then lacks what was judged meanwhile, of its own shards and of others."""
    batches = batches_of(log)
    with Home(tmp_path_factory.mktemp("before")) as before:
        before.cache = home.cache
        for number, data in enumerate(batches[:8]):
            before.batch(number, data)
    home.cache = replace(home.cache, standby=True)
    home.join(6, range(SHARDS))
    home.join(7, range(SHARDS))
    assert len(home.state_servers()) == STATE_SERVERS
    home.alerts = dict(before.alerts)
    for number, data in enumerate(batches[8:], 8):
        assert read_of(home.batch(number, data)) == ([1] * SHARDS if number == 8 else []), number
        home.until_idle("standby")
    assert home.figures() == twin


def test_who_waits_for_a_log_that_cannot_be_read_is_let_go(home: Home, log: list[Record]) -> None:
    for number, data in enumerate(batches_of(log)[:3]):
        home.batch(number, data)
    for segment in (home.root / "state").rglob("*.seg"):
        segment.write_bytes(b"no segment")
    home.cache = replace(home.cache, root=str(home.root / "state"), per_query=False, held_max=9)
    for pid in home.state_servers():
        os.kill(pid, signal.SIGKILL)
    home.join(3, range(SHARDS))
