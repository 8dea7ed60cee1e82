"""The time that the server takes for each page of the console, over many alerts.

``python -m bench.console [--store sqlite|postgres] [--alerts N] [--folder FOLDER] [--rounds N] [--page PAGE]
[--judged] [--profile]``. Cases are in their SQLite file. The pipeline's alerts and decisions are in the named store;
PostgreSQL runs on this machine. Requests are those of a logged-in browser, without a network in between. The target is
200 ms at the 99th percentile. ``first_ms`` is the first request of a page in a new process. ``--judged`` requests the
parts of case pages that read from the source. ``--profile`` shows where a page spends its time.
"""

from __future__ import annotations

import asyncio
import cProfile
import html
import pstats
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from bench.cases import SETTINGS
from bench.console_pages import Address, Addresses, addresses, judged, left_out
from bench.console_store import Kind, Stock, opened, stock
from bench.report import Report, median, say
from bench.rounds import TARGET_MS, add_times, folder_of, parser_of
from crossline.basics.errors import UsageError
from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.app.split import Split
from crossline.serve.app.store_reads import StoredCases
from crossline.serve.console.app import Console
from crossline.serve.console.dependencies import PageDependencies, parts_of
from crossline.serve.console.warmup import warm
from crossline.serve.dead_letters.resend import DeadLetters
from crossline.serve.dead_letters.resend_log import ResentFile
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies
from crossline.settings.process.serve import LimitSettings, ServeSettings

PROFILED = 25  # functions
HOST, WHO = "127.0.0.1:8080", "ada"
ROLES = ("analyst", "approver", "operator")


@contextmanager
def console_of(folder: Path, made: Stock) -> Iterator[tuple[Split, str]]:
    """The console over what was made, as it is once the server has started, and the cookie of who is logged in."""
    limits = LimitSettings(per_s=1_000_000, burst=1_000_000)
    settings = ServeSettings(
        path=str(folder), users=str(folder / "users.db"), keys=str(folder / "keys.db"), cases=SETTINGS, limits=limits
    )
    audit = AuditLog(folder / "audit", lambda: time.time_ns() // 1_000_000)
    resent = ResentFile(folder / "resent.db")
    stores: dict[str, Any] = {"cases": StoredCases(made.desk), "desk": made.desk, "dead": DeadLetters(resent)}
    given = {"audit": audit.path, "now_ms": lambda: made.now_ms, **stores}
    deps = Dependencies(folder / "pipeline.yaml", made.config, folder, **given)
    rest = create_api(deps)
    access = guarded(rest, settings)
    parts = parts_of(deps, settings, rest, audit, access.charge)
    console = Console(parts)
    asyncio.run(warm(parts))
    try:
        yield Split(access, console), f"crossline={_session(parts, made.now_ms)}"
    finally:
        asyncio.run(console.close())
        asyncio.run(rest.state.close())
        resent.close()


def _session(parts: PageDependencies, now_ms: int) -> str:
    if parts.users.find(WHO) is None:
        try:
            parts.users.create(WHO, ROLES, "correct horse battery", now_ms=now_ms - 1)
        except UsageError:  # another process was first
            say(f"{WHO} is there")
    return parts.sessions.begin(WHO, "local", ROLES, now_ms)


class Browser:
    """A logged-in client of the console."""

    def __init__(self, app: Split, cookie: str) -> None:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 40_000))
        self._client = httpx.AsyncClient(
            transport=transport, base_url=f"http://{HOST}", headers={"Host": HOST, "Cookie": cookie}
        )

    async def path(self, given: Address) -> str:
        """The address. Raises RuntimeError if the page that should contain it does not."""
        if isinstance(given, str):
            return given
        found = re.search(given.pattern, (await self._client.get(given.page)).text)
        if found is None:
            raise RuntimeError(f"{given.page} has no {given.pattern}")
        return given.form.format(*map(html.unescape, found.groups()))

    async def ms(self, path: str) -> float:
        """How long the answer takes, in milliseconds. Raises RuntimeError for one that is none."""
        began = time.perf_counter()
        answer = await self._client.get(path)
        spent = 1_000 * (time.perf_counter() - began)
        if answer.status_code not in {200, 303}:
            raise RuntimeError(f"{path} was answered with {answer.status_code}: {answer.text[-500:]}")
        return spent


async def timed(at: Browser, made: Callable[[], Address], rounds: int, met: set[str]) -> list[float]:
    """Milliseconds of each answer, one more than ``rounds``; ``met``: takes the addresses."""
    spent: list[float] = []
    for _ in range(rounds + 1):
        path = await at.path(made())
        met.add(path.partition("?")[0])
        spent.append(await at.ms(path))
    return spent


def profiled(name: str, ask: Callable[[], Any]) -> None:
    """Where one page spends its time: its own thread's functions, and those of the threads that it asks."""
    profile = cProfile.Profile()
    threads: list[cProfile.Profile] = []
    to_thread = asyncio.to_thread

    async def watched(work: Callable[..., object], /, *given: object, **named: object) -> object:
        def run() -> object:
            mine = cProfile.Profile()
            threads.append(mine)
            return mine.runcall(work, *given, **named)

        return await to_thread(run)

    asyncio.to_thread = watched  # type: ignore[assignment]  # as long as it is profiled
    try:
        profile.runcall(ask)
    finally:
        asyncio.to_thread = to_thread
    say(name)
    stats = pstats.Stats(profile)
    for each in threads:
        stats.add(each)
    stats.sort_stats("cumulative").print_stats(PROFILED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requests: how often, and the addresses of ``pages`` whose names begin with ``only``."""

    rounds: int
    pages: Callable[[Stock, random.Random], Addresses] = addresses
    only: str = ""

    def of(self, made: Stock, seed: int) -> Addresses:
        """By name."""
        found = self.pages(made, random.Random(seed))
        return {name: each for name, each in found.items() if name.startswith(self.only)}


@contextmanager
def looked_at(folder: Path, count: int, kind: Kind) -> Iterator[tuple[Stock, Split, str]]:
    """What is not there is made; the console over it, and the cookie of who looks."""
    with (
        stock(folder, count, kind) as config,
        opened(folder, config) as made,
        console_of(folder, made) as (app, cookie),
    ):
        yield made, app, cookie


def run(folder: Path, count: int, kind: Kind, wanted: Wanted) -> Report:
    """Make what is not there, and time each page: its first look in a process of its own, then all in one."""
    title = f"Pages of the console, alerts in {kind}, {wanted.rounds} times each, target {TARGET_MS:.0f} ms at p99"
    report, met = Report(f"console_{kind}", title), set[str]()
    with looked_at(folder, count, kind) as (made, app, cookie):
        report.add(page="(the store)", cases=made.cases, alerts=made.alerts)
        for name, address in wanted.of(made, 11).items():
            times = asyncio.run(timed(Browser(app, cookie), address, wanted.rounds, met))
            say(f"{name}: first {times[0]:.1f} ms, then {median(times[1:]):.1f}, at most {max(times[1:]):.1f} ms")
            target = TARGET_MS if wanted.pages is addresses else None
            add_times(report, times, target, page=name, first_ms=round(times[0], 1))
    if wanted == Wanted(wanted.rounds) and (left := left_out(met)):
        raise RuntimeError(f"no request covers {', '.join(left)}; expected every page, or why not")
    return report


def profile(folder: Path, count: int, kind: Kind, wanted: Wanted) -> None:
    """Where pages spend their time."""
    with looked_at(folder, count, kind) as (made, app, cookie):
        for name, address in wanted.of(made, 11).items():
            ask = partial(timed, Browser(app, cookie), address, wanted.rounds, set[str]())
            profiled(f"{name}, {wanted.rounds} times", lambda ask=ask: asyncio.run(ask()))


def main() -> None:
    """The command line."""
    parser = parser_of(__doc__, alerts=100_000, rounds=200)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--page", default="", help="only pages whose names begin with this")
    parser.add_argument(
        "--judged", action="store_true", help="measure the parts that read from the source, not the pages"
    )
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    wanted = Wanted(given.rounds, judged if given.judged else addresses, given.page)
    with folder_of(given.folder, "console") as folder:
        if given.profile:
            profile(folder, given.alerts, given.store, wanted)
        else:
            run(folder, given.alerts, given.store, wanted).finish()


if __name__ == "__main__":
    main()
