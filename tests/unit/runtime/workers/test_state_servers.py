"""State servers are real processes here, killed as workers are; the answers stay the twin's."""

from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import replace
from typing import Any

import orjson
import psutil
import pytest

from crossline.basics.errors import StateError
from crossline.runtime.stages.rows import READ
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.workers import state_server, state_servers
from crossline.runtime.workers.fork_server import request_state_server
from crossline.runtime.workers.state_server import StateServerFolder
from crossline.runtime.workers.state_servers import judge_shards
from e2e.state_server_homes import SHARDS, STATE_SERVERS, Home, alerts_in, batches_of, loaded, read_of, until
from e2e.traffic import Record


def test_workers_come_and_go_and_the_state_servers_stay(home: Home, log: list[Record], twin: Any) -> None:
    seen = set()
    for number, data in enumerate(batches_of(log)):
        home.batch(number, data)
        seen |= home.state_servers()
    assert len(seen) == STATE_SERVERS
    assert home.figures() == twin
    home.end()
    until(lambda: not home.alive() and not home.place.exists())


def test_state_servers_come_of_a_process_that_no_worker_has_touched(home: Home, log: list[Record]) -> None:
    """What a worker has open, an object store's client above all, is of no use in a fork of it."""
    first, second, *_ = batches_of(log)
    home.batch(0, first)
    was = home.state_servers()
    assert len(was) == STATE_SERVERS
    assert {psutil.Process(pid).ppid() for pid in was} == {home.fork_server}
    for pid in (home.fork_server, *was):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not home.alive())
    home.batch(1, second)  # without it the worker does what it can
    assert len(home.state_servers()) == STATE_SERVERS


def test_a_state_server_that_is_killed_is_forked_again_and_knows_all(home: Home, log: list[Record], twin: Any) -> None:
    draw = random.Random(1)
    seen: set[int] = set()
    for number, data in enumerate(batches_of(log)):
        home.batch(number, data)
        now = home.state_servers()
        seen |= now
        if number % 3 == 1:
            victim = draw.choice(sorted(now))
            os.kill(victim, signal.SIGKILL)
            until(lambda gone=victim: gone not in home.state_servers())
    assert len(seen) > STATE_SERVERS, "no state server was forked again: not tested"
    assert home.figures() == twin


def test_state_servers_and_workers_killed_at_work(home: Home, log: list[Record], twin: Any) -> None:
    """A killed worker has its batch run again, as Spark does; that of a killed state server asks again."""
    draw = random.Random(2)
    for number, data in enumerate(batches_of(log)):
        worker = home.ask(f"{home.request(number, data)}!")
        threading.Event().wait(draw.uniform(0, 0.01))
        victims = sorted(home.state_servers() - {worker}) if number % 2 else [worker]
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        home.batch(number, data)
    assert home.figures() == twin


def test_a_process_that_forks_none_has_a_killed_state_server_forked(
    home: Home, log: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the in-process runner, whose batch Spark would run else; without the fork server it is left to Spark."""
    first, second, third, *_ = batches_of(log)
    home.batch(0, first)
    monkeypatch.setattr(state_server, "_place", StateServerFolder(home.place, None))
    monkeypatch.setattr(state_servers, "processors", lambda: STATE_SERVERS)

    def judged(batch: int, data: bytes) -> list[StageRows]:
        work = ShardJudge(home.source, home.cache, "query", batch)
        return list(judge_shards(work, home.parts(batch, data), STATE_SERVERS, Stopwatch()))

    def gone(pids: set[int]) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not home.alive() & pids)

    gone(home.state_servers())
    answer = judged(1, second)
    assert {psutil.Process(pid).ppid() for pid in home.state_servers()} == {home.fork_server}
    assert home.batch(1, second) == answer
    gone(home.alive())
    with pytest.raises(ConnectionRefusedError, match="none that forks it"):
        judged(2, third)
    assert not home.alive()
    home.batch(2, third)
    home.end()
    until(lambda: not home.place.exists())
    with pytest.raises(FileNotFoundError):
        judged(3, b"")


def test_a_batch_asked_for_again_has_the_answer_it_had(home: Home, log: list[Record]) -> None:
    for number, data in enumerate(batches_of(log)[:5]):
        first = home.batch(number, data)
        # To the byte, the instants of detection among them: it was not judged again.
        assert home.batch(number, data) == first
    assert any(home.alerts.values())


def test_what_fails_in_a_state_server_is_reported_by_the_worker(home: Home, log: list[Record]) -> None:
    for number, data in enumerate(batches_of(log)[:4]):
        home.batch(number, data)
    for segment in (home.root / "state" / "shard-00001").glob("000000000001-*.seg"):
        segment.unlink()
    for pid in home.state_servers():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(StateError, match=r"shard-00001.*state of batch 1 is missing"):
        home.batch(4, b"")


def test_without_a_daemon_the_worker_judges_itself(home: Home, log: list[Record]) -> None:
    data = batches_of(log, 120)[0]
    there = home.batch(0, data)
    work, parts, count = loaded(home.root / home.request(0, data))
    alone = ShardJudge(work.source, ShardCache(str(home.root / "alone"), per_query=False, held_max=8), "query", 0)
    here = list(judge_shards(alone, parts, count, Stopwatch()))

    def ids(answer: list[StageRows]) -> set[str]:
        return {alert["alert_id"] for alert in alerts_in(answer)}

    assert ids(here) == ids(there)


def test_a_state_server_whose_shards_are_judged_elsewhere_lets_them_go(home: Home, log: list[Record]) -> None:
    """Shard 1 alone is with the second state server, which is idle from batch 1 to 5; in batch 4 it is too long."""
    elsewhere = home.cache
    home.cache = replace(home.cache, used_within=2)
    for number, data in enumerate(batches_of(log)[:6]):
        home.batch(number, data, (0, 2) if number else range(SHARDS))
        if number:
            work = ShardJudge(home.source, elsewhere, "query", number)
            work.shard(1, home.parts(number, data)[1], Stopwatch())
    answer = home.batch(6, b"")
    read = [orjson.loads(body)[0] for rows in answer for *_, kind, body in rows if kind == READ]
    assert read == [6], "what it had stood at batch 0, and had batches 1 to 5 to read"


def test_what_was_read_ahead_is_not_read_by_the_batch(home: Home, log: list[Record], twin: Any) -> None:
    for number, data in enumerate(batches_of(log)):
        if number % 4 == 3:
            for pid in home.state_servers():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not home.state_servers())
            home.read_ahead(number)
        read = read_of(home.batch(number, data))
        assert read == [], f"batch {number} read {read}"
    assert home.figures() == twin


def test_no_other_name_is_forked(home: Home) -> None:
    for name in ("../server-1", "server-", "standby-1234", "worker-1", "x" * 80):
        assert not request_state_server(home.place, name)
    assert home.state_servers() == set()
    assert request_state_server(home.place, "standby-0")
    assert len(home.state_servers()) == 1


def test_a_log_that_cannot_be_read_ahead_fails_the_batch_alone(home: Home, log: list[Record]) -> None:
    for number, data in enumerate(batches_of(log)[:4]):
        home.batch(number, data)
    for segment in (home.root / "state" / "shard-00001").glob("000000000001-*.seg"):
        segment.unlink()
    was = home.state_servers()
    for pid in was:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not home.state_servers())
    home.read_ahead(4)
    with pytest.raises(StateError, match=r"shard-00001.*state of batch 1 is missing"):
        home.batch(4, b"")
    assert len(home.state_servers()) == STATE_SERVERS
