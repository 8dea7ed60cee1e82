"""The pages of cases: how long the server takes for each, over many alerts on SQLite.

``python -m bench.console [--alerts N] [--folder FOLDER] [--rounds N]``. The store is that of ``bench.cases``. The app
is asked as a browser asks, without a network between; the target is 200 ms at the 99th percentile.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from bench.cases import AT_ONCE, MADE_AT_ONCE, SETTINGS, taken, worked
from bench.report import Report, percentile
from crossline.core.settings.config import load_pipeline
from crossline.core.settings.process.serve import LimitSettings, ServeSettings
from crossline.serve.access.audit import AuditLog
from crossline.serve.access.guard import guarded
from crossline.serve.app.split import Split
from crossline.serve.app.stored import StoredCases
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.desk import CaseDesk
from crossline.serve.cases.intake.taking import Intake
from crossline.serve.console.app import Console
from crossline.serve.console.parts import parts_of
from crossline.serve.http.api import create_api
from crossline.serve.http.deps import Dependencies

TARGET_MS = 200.0
PIPELINE = """\
schema_version: 1
name: bench
streams: stream.yaml
sources: {payments: {kind: api, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: sqlite, path: out/crossline.db}]
"""
STREAM = """\
schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""


def desk_in(folder: Path, count: int) -> tuple[CaseDesk, int, int]:
    """The store of ``bench.cases``, made where it is not there; with how many cases and alerts it has."""
    fresh = not (folder / FILE).exists()
    cases = Cases(folder / FILE)
    desk = CaseDesk(cases)
    if fresh:
        intake = Intake(folder / FILE, SETTINGS)
        taken(intake, 0, count - count % AT_ONCE, MADE_AT_ONCE)
        intake.close()
    (found,) = cases.file.rows("SELECT count(*) AS cases, (SELECT count(*) FROM alerts) AS alerts FROM cases")
    if fresh:
        worked(desk, found["cases"])
    return desk, found["cases"], found["alerts"]


def console_of(folder: Path, desk: CaseDesk) -> tuple[Split, Callable[[], None]]:
    """The console over that store, open, and what lets go of it."""
    config = load_pipeline(PIPELINE, "pipeline.yaml", lambda _: STREAM)
    settings = ServeSettings(
        open=True,
        path=str(folder),
        users=str(folder / "users.db"),
        keys=str(folder / "keys.db"),
        cases=SETTINGS,
        limits=LimitSettings(per_s=1_000_000, burst=1_000_000),
    )
    audit = AuditLog(folder / "audit", lambda: time.time_ns() // 1_000_000)
    deps = Dependencies(folder / "pipeline.yaml", config, folder, cases=StoredCases(desk), desk=desk)
    rest = create_api(deps)
    access = guarded(rest, settings)
    console = Console(parts_of(deps, settings, rest, audit, access.charge))

    def close() -> None:
        asyncio.run(console.close())
        asyncio.run(rest.state.close())

    return Split(access, console), close


def addresses(cases: int, at: random.Random) -> dict[str, Callable[[], str]]:
    """What is asked for, by name; values are drawn anew in each round."""

    def case() -> str:
        return f"C-{at.randrange(1, cases)}"

    return {
        "queue, open": lambda: "/queue?view=open",
        "queue, unassigned": lambda: "/queue?view=unassigned",
        "queue, all by money": lambda: "/queue?view=all&sort=money",
        "queue, filters": lambda: f"/queue?view=all&severity=high&rule=rule_{at.randrange(40):02}&money=1000",
        "queue, entity": lambda: f"/queue?view=all&entity=account_id:a{at.randrange(cases):07}",
        "queue, words": lambda: f"/queue?view=all&q=t{at.randrange(cases * 3):09}",
        "queue, a form": lambda: f"/queue?view=open&ask=resolve&case={case()}",
        "queue, what is new": lambda: f"/queue/news?view=open&seen={cases - 50}",
        "preview": lambda: f"/queue/preview/{case()}?view=open",
        "case": lambda: f"/cases/{case()}?view=open",
        "case, what changed": lambda: f"/cases/{case()}/state?version=1&alerts=1&money=x",
        "views": lambda: "/views",
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
                raise RuntimeError(f"{path} was answered with {answer.status_code}")
    return spent


def run(folder: Path, count: int, rounds: int) -> Report:
    """Make the store where it is not there, and time each page."""
    report = Report(
        "console", f"Pages of the console over cases, {rounds} times each, target {TARGET_MS:.0f} ms at p99"
    )
    desk, cases, alerts = desk_in(folder, count)
    report.add(page="(the store)", cases=cases, alerts=alerts)
    app, close = console_of(folder, desk)
    for name, made in addresses(cases, random.Random(11)).items():
        times = asyncio.run(timed(app, made, rounds))
        p50, p99 = (round(percentile(times, share), 1) for share in (0.5, 0.99))
        report.add(page=name, p50_ms=p50, p99_ms=p99, kept=p99 <= TARGET_MS)
    close()
    desk.cases.close()
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--alerts", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crossline-console-") as folder:
        run(given.folder or Path(folder), given.alerts, given.rounds).finish()


if __name__ == "__main__":
    main()
