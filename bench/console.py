"""The console's pages: how long the server takes for each, over many alerts.

``python -m bench.console [--store sqlite|postgres] [--alerts N] [--folder FOLDER] [--rounds N] [--profile PAGE]``.
Cases are in their file (SQLite), the pipeline's alerts and decisions in the store that is named, PostgreSQL on this
machine. The app is asked as a browser asks, without a network between; the target is 200 ms at the 99th percentile.
``--profile`` says where one page spends its time.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.cases import SETTINGS
from bench.console_store import RULES, Kind, Stock, stock
from bench.report import Report, percentile, say
from crossline.core.settings.process.serve import LimitSettings, ServeSettings
from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.app.split import Split
from crossline.serve.app.stored import StoredCases
from crossline.serve.console.app import Console
from crossline.serve.console.parts import parts_of
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies

TARGET_MS = 200.0
PROFILED = 25  # functions


def console_of(folder: Path, made: Stock) -> tuple[Split, Callable[[], None]]:
    """The console over what was made, open, and what lets go of it."""
    settings = ServeSettings(
        open=True,
        path=str(folder),
        users=str(folder / "users.db"),
        keys=str(folder / "keys.db"),
        cases=SETTINGS,
        limits=LimitSettings(per_s=1_000_000, burst=1_000_000),
    )
    audit = AuditLog(folder / "audit", lambda: time.time_ns() // 1_000_000)
    stores = {"cases": StoredCases(made.desk), "desk": made.desk}
    deps = Dependencies(folder / "pipeline.yaml", made.config, folder, now_ms=lambda: made.now_ms, **stores)  # type: ignore[arg-type]  # they are named
    rest = create_api(deps)
    access = guarded(rest, settings)
    console = Console(parts_of(deps, settings, rest, audit, access.charge))

    def close() -> None:
        asyncio.run(console.close())
        asyncio.run(rest.state.close())

    return Split(access, console), close


def addresses(made: Stock, at: random.Random) -> dict[str, Callable[[], str]]:
    """What is asked for, by name; values are drawn anew in each round."""
    cases, alerts = made.cases, made.alerts

    def case() -> str:
        return f"C-{at.randrange(1, cases)}"

    def account() -> str:
        return f"a{at.randrange(alerts) // 100 * 30 + at.randrange(30):07}"

    def rule() -> str:
        return f"rule_{at.randrange(RULES):02}"

    return {
        "queue, open": lambda: "/queue?view=open",
        "queue, unassigned": lambda: "/queue?view=unassigned",
        "queue, all by money": lambda: "/queue?view=all&sort=money",
        "queue, filters": lambda: f"/queue?view=all&severity=high&rule={rule()}&money=1000",
        "queue, entity": lambda: f"/queue?view=all&entity=account_id:{account()}",
        "queue, words": lambda: f"/queue?view=all&q=t{at.randrange(alerts):09}",
        "queue, a word of all": lambda: "/queue?view=all&q=payments",
        "queue, a form": lambda: f"/queue?view=open&ask=resolve&case={case()}",
        "queue, what is new": lambda: f"/queue/news?view=open&seen={cases - 50}",
        "preview": lambda: f"/queue/preview/{case()}?view=open",
        "case": lambda: f"/cases/{case()}?view=open",
        "case, what changed": lambda: f"/cases/{case()}/state?version=1&alerts=1&money=x",
        "views": lambda: "/views",
        "decisions": lambda: "/decisions",
        "decisions, a record": lambda: f"/decisions?record=t{at.randrange(alerts):09}",
        "entity": lambda: f"/entities/account_id/{account()}",
        "entity, a hold asked": lambda: f"/entities/account_id/{account()}?act=hold",
        "rules": lambda: "/rules",
        "rule": lambda: f"/rules/{rule()}",
        "rule, the editor": lambda: f"/rules/{rule()}/1/edit",
        "approvals": lambda: "/approvals",
        "lists": lambda: "/lists",
        "suppressions": lambda: "/suppressions",
        "profile": lambda: "/profile",
    }


async def timed(app: Split, made: Callable[[], str], rounds: int) -> list[float]:
    """Milliseconds of each answer. Raises RuntimeError for one that is none."""
    spent: list[float] = []
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
        for number in range(rounds + 1):
            path = made()
            began = time.perf_counter()
            answer = await client.get(path, headers={"Host": "127.0.0.1:8080"})
            if number:  # the first one reads templates
                spent.append(1_000 * (time.perf_counter() - began))
            if answer.status_code != 200:
                raise RuntimeError(f"{path} was answered with {answer.status_code}: {answer.text[-500:]}")
    return spent


def profiled(app: Split, name: str, made: Callable[[], str], rounds: int) -> None:
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
        profile.runcall(lambda: asyncio.run(timed(app, made, rounds)))
    finally:
        asyncio.to_thread = to_thread
    say(f"{name}, {rounds} times")
    stats = pstats.Stats(profile)
    for each in threads:
        stats.add(each)
    stats.sort_stats("cumulative").print_stats(PROFILED)


def run(folder: Path, count: int, rounds: int, kind: Kind, only: str = "") -> Report:
    """Make what is not there, and time each page."""
    title = f"Pages of the console, alerts in {kind}, {rounds} times each, target {TARGET_MS:.0f} ms at p99"
    report = Report(f"console_{kind}", title)
    with stock(folder, count, kind) as made:
        report.add(page="(the store)", cases=made.cases, alerts=made.alerts)
        app, close = console_of(folder, made)
        for name, address in addresses(made, random.Random(11)).items():
            if only:
                if name == only:
                    profiled(app, name, address, rounds)
                continue
            times = asyncio.run(timed(app, address, rounds))
            p50, p99 = (round(percentile(times, share), 1) for share in (0.5, 0.99))
            report.add(page=name, p50_ms=p50, p99_ms=p99, max_ms=round(max(times), 1), kept=p99 <= TARGET_MS)
        close()
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--alerts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--profile", default="", metavar="PAGE")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crossline-console-") as folder:
        report = run(given.folder or Path(folder), given.alerts, given.rounds, given.store, given.profile)
    if not given.profile:
        report.finish()


if __name__ == "__main__":
    main()
