"""A pipeline that was run over its example, the API over what it left, and stand-ins for what others keep."""

from __future__ import annotations

import asyncio
import atexit
import json
import shutil
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from crossline.cli.init import template_files
from crossline.cli.main import run_command
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.serve.app.store_reads import StoredCases
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.service import CaseService
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import CommandWaits, Dependencies
from crossline.serve.http.events.source import EventsGoneError, LiveEvent
from crossline.serve.http.events.stream import StreamLimits

# Whatever else the machine does: nothing here says how quick it is.
PATIENT = CommandWaits(answer_s=300.0, read_back_s=240.0, probe_s=300.0)
NOW_MS = 1_767_604_500_000  # 2026-01-05T09:15:00Z, when the example is over
POLICY = "schema_version: 1\nversion: 1\nbands: [{from: 50, decision: block}]\n"
MORE = """
lists: {kind: directory, path: lists/}
policy: policy.yaml
decisions: {emit: all, path: out/decisions}
"""


@cache
def example() -> Path:
    """A folder with the example, its alerts and decisions in a store, and a rule log; made once a process."""
    folder = Path(mkdtemp(prefix="crossline-routes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, content in template_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "lists").mkdir()
    (folder / "lists/accounts.yaml").write_text("# watched\n- a1\n- {value: a9, until: 2026-01-04T00:00:00Z}\n- 7\n")
    (folder / "lists/cards.txt").write_text("# stolen\nc1\n")
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(pipeline.read_text() + MORE)
    testing = folder / "rules/card_testing.yaml"
    testing.write_text(testing.read_text() + "  hold: 30m\n")
    paths = {name: str(folder / f"{name}.jsonl") for name in ("alerts", "decisions")}
    given = ["--pipeline", str(pipeline), "--input", str(folder / "in/*.jsonl"), "--output", paths["alerts"]]
    assert run_command(["backtest", *given, "--decisions", paths["decisions"], "--json"]) == 0
    found = {name: [json.loads(line) for line in Path(path).read_text().splitlines()] for name, path in paths.items()}
    config = read_pipeline_in_place(pipeline)
    sink = SqliteSink(folder / "out/crossline.db", config.name)
    sink.open()
    sink.deliver(Delivery(config.name, 0, alerts=found["alerts"], decisions=found["decisions"]))
    sink.close()
    log = DirectoryRuleLog(config.rules.path, config.name, config.streams, lambda: ["accounts", "cards"])
    log.start(NOW_MS)
    log.close()
    return folder


@dataclass(frozen=True)
class Someone:
    """Who asks."""

    name: str = "mary"
    scopes: frozenset[str] = frozenset({"admin", "read:alerts"})


class Admitting:
    """In place of the access layer: accepts the user that the header names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            name = next((value.decode() for key, value in scope["headers"] if key == b"x-who"), "mary")
            # Where ``Access`` puts whom it lets in, and nowhere else.
            scope.setdefault("state", {})["principal"] = Someone(name) if name != "nobody" else None
        await self._app(scope, receive, send)


@dataclass
class FakeLedger:
    """Decisions that were answered, by id, with revisions and receipts."""

    answered: dict[str, dict[str, Any]] = field(default_factory=dict)
    revised: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    receipts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def decision(self, decision_id: str) -> Mapping[str, Any] | None:
        return self.answered.get(decision_id)

    def decisions(
        self, record_id: str, stream: str | None, after: str | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        mine = [self.answered[name] for name in sorted(self.answered) if after is None or name > after]
        return [each for each in mine if each["record_id"] == record_id and stream in {None, each["stream"]}][:limit]

    def revisions(self, decision_id: str) -> Sequence[Mapping[str, Any]]:
        return self.revised.get(decision_id, [])

    def receipt(self, decision_id: str) -> Mapping[str, Any] | None:
        return self.receipts.get(decision_id)

    def differing(self, since_ms: int, most: int) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        lines = [(self.answered[name], each) for name, several in self.revised.items() for each in several]
        return [each for each in lines if each[1].get("at_ms", since_ms) >= since_ms][:most]

    def figures(self, records: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        found = {
            (each["decision"]["stream"], each["decision"]["record_id"]): each["figures"]
            for each in self.receipts.values()
        }
        return {which: {one["name"]: one for one in found[which]} for which in records if which in found}


class FakeEvents:
    """Events that happened, in order; a client gets those, and then the stream ends."""

    def __init__(self, events: Sequence[LiveEvent] = ()) -> None:
        self.events = list(events)

    async def follow(self, after: str | None) -> AsyncIterator[LiveEvent]:
        ids = [each.id for each in self.events]
        if after is not None and after not in ids:
            raise EventsGoneError(f"{after} is not kept")
        for each in self.events[ids.index(after) + 1 if after is not None else 0 :]:
            yield each


def project(tmp_path: Path) -> Path:
    """A copy of the example that may be written into."""
    folder = tmp_path / "project"
    shutil.copytree(example(), folder)
    return folder


def dependencies(folder: Path, path: Path) -> Dependencies:
    """Of the pipeline in ``folder``; its clock stands still."""
    pipeline = folder / "pipeline.yaml"
    config = read_pipeline_in_place(pipeline)
    desk = CaseService(Cases(path / "cases.db", clock_ms=lambda: NOW_MS), clock_ms=lambda: NOW_MS)
    stores: Any = {"cases": StoredCases(desk), "desk": desk, "events": FakeEvents()}
    return Dependencies(pipeline, config, path, now_ms=lambda: NOW_MS, waits=PATIENT, **stores)


class Client:
    """Asks an app that runs in this thread: between questions it stands still."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.runner = asyncio.Runner()
        transport = httpx.ASGITransport(Admitting(app), raise_app_exceptions=True)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://api")

    def request(self, verb: str, path: str, **more: Any) -> httpx.Response:
        """One question."""
        return self.runner.run(self._client.request(verb, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.request("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.request("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PUT", path, **more)

    def patch(self, path: str, **more: Any) -> httpx.Response:
        return self.request("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.request("DELETE", path, **more)

    def close(self) -> None:
        """End as a server ends."""
        self.runner.run(self.app.state.close())
        self.runner.run(self._client.aclose())
        self.runner.close()


@contextmanager
def client_of(deps: Dependencies, bounds: StreamLimits | None = None) -> Iterator[Client]:
    """A client of the API, which runs as long as the context lasts."""
    client = Client(create_api(deps, bounds=bounds))
    try:
        yield client
    finally:
        client.close()


@contextmanager
def served(folder: Path, path: Path, **changes: Any) -> Iterator[Client]:
    """As ``client_of``, of the pipeline in ``folder``."""
    with client_of(replace(dependencies(folder, path), **changes)) as client:
        yield client


def detail(answer: Any, status: int) -> str:
    """The detail of a problem, whose shape is checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "errors"}
    assert body["status"] == status
    assert all(set(each) == {"pointer", "found", "expected", "hint"} for each in body["errors"])
    assert "Traceback" not in answer.text
    return str(body["detail"])
