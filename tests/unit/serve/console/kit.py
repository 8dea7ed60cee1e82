"""The console without a pipeline: its stores made by the test, asked as a browser asks."""

from __future__ import annotations

import asyncio
import re
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import orjson
from argon2 import PasswordHasher
from tests.unit.serve.http.kit import PATIENT

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.access.roles import Principal
from crossline.serve.app.audit_writes import AuditMiddleware
from crossline.serve.app.split import Split
from crossline.serve.app.store_reads import StoredCases
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.service import CaseService
from crossline.serve.console.accounts.passwords import Passwords
from crossline.serve.console.accounts.users import UserFile
from crossline.serve.console.app import Console
from crossline.serve.console.dependencies import PageDependencies, parts_of
from crossline.serve.dead_letters.resend import DeadLetters
from crossline.serve.decisions.store import DecisionStore
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies
from crossline.settings.config import PipelineConfig, load_pipeline
from crossline.settings.process.serve import LimitSettings, OidcSettings, ServeSettings

from .cards import CASEWORK, last_ms

NOW_MS = 1_795_500_256_550  # 2026-11-24T06:04:16.550Z, a Tuesday
PASSWORD = "correct horse battery"
FAST = Passwords(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
HOST = "127.0.0.1:8080"
PIPELINE = """\
schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: api, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/crossline.db}]
"""
STREAM = """\
schema_version: 1
streams:
  payments:
    format: json
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer}
"""
HERE = {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "same-origin"}


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


def pipeline(folder: Path) -> PipelineConfig:
    config = load_pipeline(PIPELINE, "pipeline.yaml", lambda _: STREAM)
    return replace(
        config, sinks=[each.model_copy(update={"path": str(folder / "crossline.db")}) for each in config.sinks]
    )


@dataclass
class Seat:
    """A browser: it keeps cookies as the server sets them, and sends where it is as browsers do."""

    app: Any
    host: str = HOST
    scheme: str = "http"
    peer: str = "127.0.0.1"
    cookies: dict[str, str] = field(default_factory=dict)
    set_cookies: list[str] = field(default_factory=list)

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, path, dict(headers or {}), **more))

    async def _ask(self, method: str, path: str, headers: dict[str, str], **more: Any) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, client=(self.peer, 40_000))
        given = {"Host": self.host, **headers}
        if self.cookies and "Cookie" not in given:
            given["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        async with httpx.AsyncClient(transport=transport, base_url=f"{self.scheme}://{self.host}") as client:
            answer = await client.request(method, path, headers=given, **more)
        for line in answer.headers.get_list("set-cookie"):
            self.set_cookies.append(line)
            for name, morsel in SimpleCookie(line).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return answer

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self.ask("GET", path, headers)

    def post(
        self, path: str, form: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """From a page of the console."""
        return self.ask("POST", path, {**HERE, **(headers or {})}, data=dict(form or {}))

    def token(self, path: str = "/profile") -> str:
        """Of the forms of a page."""
        found = re.search(r'name="token" value="([^"]+)"', self.get(path).text)
        assert found is not None, path
        return found[1]

    def act(self, path: str, form: Mapping[str, Any] | None = None) -> httpx.Response:
        """As a form of this session does."""
        return self.post(path, {**(form or {}), "token": self.token()})

    def log_in(self, name: str, password: str = PASSWORD, **form: str) -> httpx.Response:
        return self.post("/login", {"user": name, "password": password, **form})


@dataclass
class Room:
    """A console that a test looks at."""

    parts: PageDependencies
    console: Console
    app: Any
    clock: Clock
    folder: Path

    def seat(self, **more: Any) -> Seat:
        return Seat(self.app, **more)

    def user(self, name: str, *roles: str) -> None:
        self.parts.users.create(name, roles or ("analyst",), PASSWORD, now_ms=self.clock.now_ms - 1)

    def seated(self, name: str, *roles: str) -> Seat:
        """A browser in which a new user of these roles is logged in."""
        self.user(name, *roles)
        seat = self.seat()
        assert seat.log_in(name).status_code == 303
        return seat

    def audited(self) -> list[dict[str, Any]]:
        path = self.parts.audit.path
        return [orjson.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


@contextmanager
def room(
    folder: Path,
    *,
    open_: bool = False,
    limits: LimitSettings | None = None,
    oidc: OidcSettings | None = None,
    environment: Mapping[str, str] | None = None,
    project: Path | None = None,
    dead: DeadLetters | None = None,
    decisions: DecisionStore | None = None,
    **more: Any,
) -> Iterator[Room]:
    """The API and the console behind one address, as ``compose`` puts them together.

    ``project``: a pipeline's folder, of which a copy is served, cases with it; None: a pipeline that never ran.
    """
    clock, path = Clock(), folder / "serve"
    if project is None:
        path.mkdir(mode=0o700)
        config, stores = pipeline(folder), {}
    else:
        shutil.copytree(project, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("in"))
        (folder / "in").symlink_to(project / "in")  # nobody writes there
        config, clock.now_ms = read_pipeline_in_place(folder / "pipeline.yaml"), last_ms(folder) + 120_000
        desk = CaseService(Cases(path / FILE, clock_ms=clock), clock_ms=clock)
        stores = {"cases": StoredCases(desk), "desk": desk}
        more = {"cases": CASEWORK, **more}
    settings = ServeSettings(
        open=open_,
        path=str(path),
        users=more.pop("users", str(folder / "users.db")),
        keys=str(folder / "keys.db"),
        oidc=oidc,
        limits=limits or LimitSettings(),
        **more,
    )
    audit = AuditLog(path / "audit", clock)
    given: Any = {"audit": audit.path, "now_ms": clock, "dead": dead, "decisions": decisions, **stores}
    deps = Dependencies(folder / "pipeline.yaml", config, path, waits=PATIENT, **given)
    rest = create_api(deps)
    access = guarded(rest, settings)
    made = parts_of(deps, settings, AuditMiddleware(rest, audit), audit, access.charge, environment or {})
    users = UserFile(Path(settings.users), FAST)
    made.sessions._users = users
    parts = replace(made, users=users)
    console = Console(parts)
    try:
        yield Room(parts, console, Split(access, console), clock, folder)
    finally:
        apart(console.close)
        apart(rest.state.close)
        if deps.desk is not None:
            deps.desk.cases.close()


def apart(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run it in a thread: in this one playwright may have a loop."""
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()


def who(name: str, *scopes: str) -> Principal:
    return Principal(name, frozenset(scopes), "session")
