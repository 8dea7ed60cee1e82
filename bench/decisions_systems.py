"""The systems under test of ``bench.decisions``: each is a context manager that starts and ends all its processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import psutil
import yaml
from dev.services.broker import LocalBroker
from dev.services.redis import LocalRedis
from dev.services.supervision import HOST, free_ports

from bench.latency import process
from bench.runs import LOG_TAIL
from bench.workload import R5, STREAM, write_pipeline
from crossline.client import Client, ClientError

PARTITIONS = 2
START_S_MAX = 300.0
SETTLE_S = 5.0
BESIDE_S = 30.0  # for which records come beside after the last question
# As bench/peers/naive.py decides.
POLICY: dict[str, Any] = {
    "schema_version": 1,
    "version": 1,
    "decide": [{"when": "hits >= 2", "decision": "block"}, {"when": "hits >= 1", "decision": "review"}],
    "fallback": [{"when": "amount_cents > 50000", "decision": "review"}, {"decision": "allow"}],
}


@dataclass(slots=True)
class Running:
    """A system that answers at ``port``; ``processes``: by name, those of which processor time is counted."""

    port: int
    processes: dict[str, int]
    key: str | None = None
    beside: Callable[[float], None] | None = None
    own: dict[str, Any] = field(default_factory=dict)

    def cpu_s(self) -> dict[str, float]:
        """Processor time so far, of each process: of those below one of these by what they are called."""
        used: dict[str, float] = {}
        for name, pid in self.processes.items():
            with suppress(psutil.NoSuchProcess):
                top = psutil.Process(pid)
                for each in [top, *top.children(recursive=True)]:
                    with suppress(psutil.NoSuchProcess):
                        times = each.cpu_times()
                        label = name if each.pid == pid else f"{name}/{each.name()}-{each.pid}"
                        used[label] = times.user + times.system + times.children_user + times.children_system
        return used

    def begin_beside(self, seconds: float) -> None:
        """Start the records from elsewhere, if the scenario has them."""
        if self.beside is not None:
            self.beside(seconds)

    def revised(self, answered: Sequence[tuple[str | None, str]]) -> dict[str, Any]:
        """How many of these answers, by ``peek``, the stream decided otherwise; where it keeps that."""
        if "revisions" not in self.own or not answered:
            return {}
        time.sleep(SETTLE_S)
        differ = known = 0
        with Client(f"http://{HOST}:{self.port}", key=self.key) as client:
            for decision_id, decided in answered:
                with suppress(ClientError):
                    found = client.decision(decision_id or "")
                    known += 1
                    differ += bool(found.get("revisions")) and found["revisions"][-1]["decision"] != decided
        others = sum(decided != "allow" for _, decided in answered)
        return {"peek_differs": f"{differ} of {known}, {others} of which were not allow"}


def await_ready(port: int, log: Path, running: subprocess.Popen[bytes]) -> None:
    """Wait until ``/readyz`` answers 200."""
    deadline_s = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline_s and running.poll() is None:
        with suppress(OSError, HTTPException):
            connection = HTTPConnection(HOST, port, timeout=5)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise SystemExit(f"it does not answer:\n{log.read_text(encoding='utf-8')[-LOG_TAIL:]}")


@contextmanager
def nothing(folder: Path, *, beside: int, trigger: str) -> Iterator[Running]:  # noqa: ARG001 - as the others
    """Answers at once."""
    (port,) = free_ports()
    with process("bench.peers.nothing", str(port), log=folder / "nothing.log") as running:
        await_ready(port, folder / "nothing.log", running)
        yield Running(port, {"service": running.pid})


def redis_fastapi(way: str) -> Callable[..., AbstractContextManager[Running]]:
    """Redis, its consumer, the service."""

    @contextmanager
    def system(folder: Path, *, beside: int, trigger: str) -> Iterator[Running]:  # noqa: ARG001 - as the others
        (port,) = free_ports()
        with ExitStack() as stack:
            store = stack.enter_context(LocalRedis())
            with store.client() as client:
                client.config_set("appendfsync", "everysec")
            pids, module = {"redis": store.pid or 0}, "bench.peers.redis_fastapi"
            if way == "stream":
                log = folder / "consumer.log"
                consumer = stack.enter_context(process(module, "consume", str(store.port), log=log))
                pids["consumer"] = consumer.pid
            log = folder / "service.log"
            service = stack.enter_context(process(module, "serve", str(store.port), str(port), way, log=log))
            await_ready(port, log, service)

            def begin(seconds: float) -> None:
                arguments = ("send", str(store.port), str(beside), str(seconds))
                stack.enter_context(process(module, *arguments, log=folder / "beside.log"))

            yield Running(port, {**pids, "service": service.pid}, None, begin if beside else None)

    return system


def can_serve() -> bool:
    """Whether this crossline has the API."""
    command = [sys.executable, "-m", "crossline.cli.main", "run", "--help"]
    return "--serve" in subprocess.run(command, capture_output=True, text=True, check=False).stdout


@contextmanager
def crossline(folder: Path, *, beside: int, trigger: str) -> Iterator[Running]:
    """``crossline run --serve``; over Kafka where records come beside, else over its own log."""
    (port,) = free_ports()
    with ExitStack() as stack:
        source: dict[str, Any] = {"kind": "api", "path": "in/payments"}
        pids: dict[str, int] = {}
        begin: Callable[[float], None] | None = None
        if beside:
            broker = stack.enter_context(LocalBroker())
            broker.create_topic(STREAM, PARTITIONS)
            source = {"kind": "kafka", "brokers": broker.brokers, "topic": STREAM, "key": "account_id"}
            pids["broker"] = broker.pid or 0

            def begin(seconds: float) -> None:
                stack.enter_context(sending(folder, broker.brokers, beside, seconds))

        more = {"policy": "policy.yaml", "serve": {"listen": f"{HOST}:{port}", "mode": "peek", "open": True}}
        path = write_pipeline(folder / "pipeline", R5, source, engine={"trigger": trigger}, more=more)
        (path.parent / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
        log = folder / "run.log"
        running = stack.enter_context(process("crossline.cli.main", "run", str(path), "--serve", log=log))
        await_ready(port, log, running)
        yield Running(port, {"crossline": running.pid, **pids}, None, begin, {"revisions": True})


@contextmanager
def sending(folder: Path, brokers: str, rate: int, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Records of the workload into the topic, at their pace."""
    arguments = ["--rate", str(rate), "--records", str(int(rate * (seconds + BESIDE_S)))]
    arguments += ["--disorder-ms", "0", "--raise-priority"]
    with process("bench.load_ahead", brokers, STREAM, *arguments, log=folder / "beside.log") as load:
        yield load


System = Callable[..., AbstractContextManager[Running]]
SYSTEMS: dict[str, System] = {
    "crossline": crossline,
    "redis": redis_fastapi("stream"),
    "redis-inline": redis_fastapi("inline"),
    "nothing": nothing,
}
