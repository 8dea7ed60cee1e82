"""Daemons with workers and state servers, as real processes, for tests that kill them."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

import orjson

from crossline.ingest.decode import decode_lines
from crossline.ingest.route.part_codec import pack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.runtime.snapshot.snapshot import StaticSnapshot
from crossline.runtime.stages.rows import READ
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.rows import StageRows
from crossline.runtime.workers import state_server
from e2e.killing import family
from e2e.project import by_id, figures
from e2e.snapshots import snapshot_of
from e2e.traffic import OF_RECORDS, STREAM, Record, lines

PROGRAM = Path(__file__).parents[1] / "unit" / "runtime" / "workers" / "state_server_home.py"
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
            [sys.executable, str(PROGRAM), str(root)],
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

    def join(self, batch: int, shards: Sequence[int]) -> None:
        """As an executor that joins: read ``shards`` up to the batch before; returns once the task is done."""
        work = ShardJudge(self.source, self.cache, "query", batch)
        (self.root / "joined").write_bytes(pickle.dumps((work, shards, STATE_SERVERS)))
        self.ask("joined%")
        assert self._read_line() == "0"

    def until_idle(self, name: str = "server") -> None:
        """Returns once all state servers, or standbys, have read what they were asked for."""
        for number in range(STATE_SERVERS):
            until(partial(_idle, str(self.place / f"{name}-{number}")))

    def answer(self, name: str) -> Any:
        return loaded(self.root / f"{name}.answer")

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


def loaded(path: Path) -> Any:
    return pickle.loads(path.read_bytes())  # noqa: S301 - what this test, or its program, wrote


def until(done: Any) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < deadline_s
        threading.Event().wait(0.01)


def _idle(address: str) -> bool:
    with suppress(FileNotFoundError, ConnectionRefusedError), state_server._connect(address) as connection:
        connection.send_bytes(pickle.dumps((None, [])))
        return connection.recv_bytes() == state_server.IDLE
    return True


def batches_of(log: list[Record], size: int = 10) -> list[bytes]:
    return [lines(log[start : start + size]) for start in range(0, len(log), size)]


def read_of(answer: list[StageRows]) -> list[int]:
    """Of each shard that had to be read: how many batches of its log."""
    return [orjson.loads(body)[0] for rows in answer for *_, kind, body in rows if kind == READ]
