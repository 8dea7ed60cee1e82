"""A pipeline with the decision API beside it, as a user starts both, and requests to it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from crossline.settings.watch import place_of

from .ended import command_of
from .scraping import Scrape
from .traffic import STREAM, STREAMS, velocity

WAIT_S = 90.0
T0 = 1_767_225_600_000
_ADDRESS = re.compile(r"https?://127\.0\.0\.1:\d+")
POLICY = {
    "schema_version": 1,
    "version": 1,
    "fallback": [{"when": "amount > 500", "decision": "review"}, {"decision": "allow"}],
}


def shop(root: Path, **serve: Any) -> Path:
    """A pipeline over a source of kind api, with a rule that asks for a step-up from the third payment on."""
    (root / "rules").mkdir(parents=True)
    rule = {**velocity("burst", threshold=3), "action": "step_up", "score": 40}
    (root / "rules" / "rules.yaml").write_text(yaml.safe_dump([rule]))
    (root / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    settings = {
        "schema_version": 1,
        "name": "shop",
        "streams": STREAMS,
        "sources": {STREAM: {"kind": "api", "path": "in"}},
        "rules": {"kind": "directory", "path": "rules"},
        "policy": "policy.yaml",
        "sinks": [{"kind": "sqlite", "path": "out/alerts.db"}],
        "engine": {"trigger": "0s", "shards": 2, "checkpoint": "out/checkpoint", "master": "local[2]"},
        # A port of its own: one that is begun again listens where it did.
        "serve": {
            "listen": f"127.0.0.1:{free_port()}",
            "open": True,
            "timeout": "20s",
            "behind_max": "20s",
            "path": "out/serve",
            "metrics": f"127.0.0.1:{free_port()}",
            **serve,
        },
    }
    pipeline = root / "pipeline.yaml"
    pipeline.write_text(yaml.safe_dump(settings))
    return pipeline


def free_port() -> int:
    with closing(socket.socket()) as looking:
        looking.bind(("127.0.0.1", 0))
        port: int = looking.getsockname()[1]
        return port


@dataclass
class Running:
    """``crossline run --serve``, and a client of its API."""

    process: subprocess.Popen[bytes]
    log: Path
    url: str
    client: httpx.Client

    def decide(self, record: dict[str, Any], **query: Any) -> dict[str, Any]:
        """Its decision; asked again where a disk was too slow to write it down in time, as clients do."""
        ends = time.monotonic() + WAIT_S
        reply = self.client.post(f"/v1/decisions/{STREAM}", json=record, params=query)
        while reply.status_code == 503 and time.monotonic() < ends:
            reply = self.client.post(f"/v1/decisions/{STREAM}", json=record, params=query)
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found

    def get(self, path: str) -> Any:
        reply = self.client.get(path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def until(self, what: Any, why: str) -> Any:
        """What ``what`` gives once it gives something."""
        ends = time.monotonic() + WAIT_S
        while time.monotonic() < ends:
            try:
                found = what()
            except httpx.TransportError:
                found = None
            if found:
                return found
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.05)
        raise AssertionError(f"{why}: {self.log.read_text()[-4000:]}")

    def scrape(self) -> Scrape:
        """The metrics of the API, as Prometheus reads them."""
        settings = yaml.safe_load((self.log.parent / "pipeline.yaml").read_text())
        place = place_of(settings["serve"]["metrics"])
        assert place is not None
        return Scrape(place)

    def ready(self) -> None:
        self.until(lambda: self.client.get("/readyz").status_code == 200, "no replica came to be ready")

    def replicas(self) -> list[psutil.Process]:
        """The processes that answer `peek`, and those that they are forked from."""
        mine = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in mine if "crossline.serve.replica" in command_of(each)]

    def servers(self) -> list[psutil.Process]:
        """The processes of the API: those of ``crossline serve``."""
        mine = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in mine if "serve" in command_of(each)[3:6]]


@contextmanager
def serving(pipeline: Path, *command: str) -> Iterator[Running]:
    """Run it (by another ``command`` than `run --serve`, where one is given); ended as a terminal would end it."""
    log = pipeline.parent / "run.log"
    begins = log.stat().st_size if log.exists() else 0
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "crossline.cli.main", *(command or ("run", str(pipeline), "--serve"))],
            stdout=out,
            stderr=out,
            env={**os.environ, "CROSSLINE_UMASK": "077"},
        )
    try:
        with httpx.Client(timeout=60) as client:
            running = Running(process, log, "", client)

            def address() -> str | None:
                found = _ADDRESS.search(log.read_bytes()[begins:].decode())
                return None if found is None else found[0]

            running.url = running.until(address, "it printed no address")
            client.base_url = httpx.URL(running.url)
            yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
