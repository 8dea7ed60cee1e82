"""State servers are real processes here, killed as workers are; the answers stay the twin's."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson
import psutil
import pytest

from crossline.basics.errors import StateError
from crossline.ingest.decode import decode_lines
from crossline.ingest.route.part_codec import pack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.runtime.snapshot.snapshot import StaticSnapshot
from crossline.runtime.stages.rows import READ
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import StageRows
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.workers import state_server, state_servers
from crossline.runtime.workers.fork_server import request_state_server
from crossline.runtime.workers.state_server import StateServerFolder
from crossline.runtime.workers.state_servers import judge_shards
from e2e.killing import family
from e2e.project import by_id, figures, from_twin
from e2e.snapshots import snapshot_of
from e2e.traffic import OF_RECORDS, STREAM, Record, expected, lines, records

HOME = Path(__file__).with_name("state_server_home.py")
SHARDS = 3
STATE_SERVERS = 2
WAIT_S = 300.0


class Home:
    """A daemon of its own, whose workers judge batches of a log."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.snapshot = snapshot_of(OF_RECORDS, SHARDS)
        self.source = StaticSnapshot(self.snapshot.to_json())
        self.cache = ShardCache(str(root / "state"), per_query=False, held_max=8)
        self.alerts: dict[int, list[dict[str, Any]]] = {}
        self.process = subprocess.Popen(
            [sys.executable, str(HOME), str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.fork_server = 0
        self.place = Path(self._read_line())
        (self.fork_server,) = self.alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()

    def _read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def ask(self, name: str) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{name}\n".encode())
        self.process.stdin.flush()
        return int(self._read_line())

    def parts(self, batch: int, data: bytes) -> dict[int, list[bytes]]:
        decoded = decode_lines(self.snapshot.decoder(STREAM), data, "file", batch * 1_000_000)
        parts: dict[int, list[bytes]] = {shard: [] for shard in range(SHARDS)}
        for part in route(self.snapshot.plan(STREAM), decoded.records, Chunk(STREAM, batch, "file"), SHARDS, {}):
            parts[part.shard].append(pack([part]))
        return parts

    def request(self, batch: int, data: bytes, shards: Sequence[int] = range(SHARDS)) -> str:
        parts = {shard: blobs for shard, blobs in self.parts(batch, data).items() if shard in shards}
        name = f"batch-{batch}-{time.monotonic_ns()}"
        work = ShardJudge(self.source, self.cache, "query", batch)
        (self.root / name).write_bytes(pickle.dumps((work, parts, STATE_SERVERS)))
        return name

    def read_ahead(self, batch: int) -> None:
        """Have the states that ``batch`` needs read before it is there; returns once that is done."""
        snapshot = self.root / "snapshot.json"
        snapshot.write_bytes(self.snapshot.to_json())
        where = {"snapshot": str(snapshot), "root": self.cache.root}
        request = {**where, "query_id": "query", "batch_id": batch, "cores": STATE_SERVERS}
        (self.root / "ahead").write_bytes(orjson.dumps(request))
        self.ask("ahead?")
        assert self._read_line() == "0"
        self.until_idle()

    def follow(self, batch: int, shards: Sequence[int]) -> None:
        """Have ``shards``, which another home judges, read up to the batch before; returns once that is done."""
        work = ShardJudge(self.source, self.cache, "query", batch)
        (self.root / "followed").write_bytes(pickle.dumps((work, shards, STATE_SERVERS)))
        self.ask("followed&")
        assert self._read_line() == "0"
        self.until_idle()

    def until_idle(self, name: str = "server") -> None:
        """Returns once all state servers, or standbys, have read what they were asked for."""
        for number in range(STATE_SERVERS):
            until(partial(_idle, str(self.place / f"{name}-{number}")))

    def answer(self, name: str) -> Any:
        return _loaded(self.root / f"{name}.answer")

    def batch(self, batch: int, data: bytes, shards: Sequence[int] = range(SHARDS)) -> list[StageRows]:
        """A batch by a worker of its own, and what it says."""
        name = self.request(batch, data, shards)
        self.ask(name)
        assert self._read_line() == "0"
        answer = self.answer(name)
        if isinstance(answer, Exception):
            raise answer
        found = alerts_in(answer)
        known = {alert["alert_id"] for alert in self.alerts.setdefault(batch, found)}
        assert {alert["alert_id"] for alert in found} == known, f"batch {batch} run again gave other alerts"
        return answer

    def alive(self) -> set[int]:
        """All that lives in the daemon's session, but the daemon."""
        return {each.pid for each in family(self.process)} - {self.process.pid}

    def state_servers(self) -> set[int]:
        """The same, but for what forks them, and is the daemon's first child."""
        return self.alive() - {self.fork_server}

    def figures(self) -> dict[str, tuple[Any, ...]]:
        return figures(by_id(alert for alerts in self.alerts.values() for alert in alerts))


def alerts_in(answer: list[StageRows]) -> list[dict[str, Any]]:
    return [alert for rows in answer for *_, kind, body in rows if kind == "alerts" for alert in orjson.loads(body)]


def _loaded(path: Path) -> Any:
    return pickle.loads(path.read_bytes())  # noqa: S301 - what this test, or its program, wrote


def until(done: Any) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with Home(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(120, seed=12)


@pytest.fixture(scope="module")
def twin(log: list[Record]) -> dict[str, tuple[Any, ...]]:
    return from_twin(expected(OF_RECORDS, log))


def batches_of(log: list[Record], size: int = 10) -> list[bytes]:
    return [lines(log[start : start + size]) for start in range(0, len(log), size)]


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
    work, parts, count = _loaded(home.root / home.request(0, data))
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


def read_of(answer: list[StageRows]) -> list[int]:
    """Of each shard that had to be read: how many batches of its log."""
    return [orjson.loads(body)[0] for rows in answer for *_, kind, body in rows if kind == READ]


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


def test_no_other_name_is_forked(home: Home) -> None:
    for name in ("../server-1", "server-", "standby-1234", "worker-1", "x" * 80):
        assert not request_state_server(home.place, name)
    assert home.state_servers() == set()
    assert request_state_server(home.place, "standby-0")
    assert len(home.state_servers()) == 1


def _idle(address: str) -> bool:
    with suppress(FileNotFoundError, ConnectionRefusedError), state_server._connect(address) as connection:
        connection.send_bytes(pickle.dumps((None, [])))
        return connection.recv_bytes() == state_server.IDLE
    return True


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
