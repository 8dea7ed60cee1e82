"""``crossline demo``: card traffic with planted frauds through the real pipeline, judged against what was planted."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import orjson
import typer
from rich.text import Text

from crossline.basics.errors import UsageError
from crossline.basics.texts.plaintext import printable
from crossline.basics.times import parse_instant_ms
from crossline.cli.demo.api_request import ApiExchange, as_lines, ask, payment_to_ask, serve_section, served
from crossline.cli.demo.lake_tour import SECTION, LatePublication, Step
from crossline.cli.demo.live_traffic import RATE_PER_S, SOURCE, go_on
from crossline.cli.demo.other_kernels import OtherKernels
from crossline.cli.signals import stoppable
from crossline.cli.terminal.tables import Listing, screen

if TYPE_CHECKING:
    from crossline.generate.score import Score
    from crossline.io.sinks.base import Delivery
    from crossline.runtime.pipeline.assemble import RunOptions
    from crossline.runtime.work.totals import Totals
    from crossline.settings.config import PipelineConfig as Config

RECORDS = 72_000
PACE_PER_S = 2_000
RECORDS_MAX = 10**12
PACE_MAX = 10**6
# Marks a folder that a demo made and that the next one replaces.
MARKER = ".crossline-demo"
CHECKPOINT = "out/checkpoint"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="demo", help="Card traffic with planted frauds through the whole pipeline, on this machine.")(demo)


def demo(
    folder: Annotated[
        Path, typer.Option(help="Folder for the project and its results; an earlier demo there is replaced.")
    ] = Path("out/demo"),
    records: Annotated[int, typer.Option(min=1, max=RECORDS_MAX, help="How many payments.")] = RECORDS,
    pace: Annotated[int, typer.Option(min=1, max=PACE_MAX, help="Payments per second.")] = PACE_PER_S,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout.")] = False,
    lake: Annotated[
        bool,
        typer.Option(
            "--lake",
            help="Keep all in a lake too; then show a late rule's gap, a replay, time travel and a training set.",
        ),
    ] = False,
    console: Annotated[
        bool | None,
        typer.Option(
            "--console/--no-console",
            help="Afterwards payments go on coming, and the console shows their cases, until Ctrl-C. Without either: "
            "where the summary is read on a terminal.",
        ),
    ] = None,
) -> None:
    """Copy the card example into ``folder``, run it on generated traffic, and sum up; then show the console."""
    from crossline.generate.cards import CardWorkload
    from crossline.generate.score import score
    from crossline.generate.source import read_source
    from crossline.runtime.pipeline.assemble import RunOptions, read_config
    from crossline.settings.config import in_folder

    _lay_out(folder, records, pace, lake=lake)
    config = in_folder(read_config(str(folder / "pipeline.yaml")), str(folder.absolute()))
    sys.stderr.write(f"starting Spark; {records:,} payments will come at {pace:,} per second\n")
    if config.serve is not None:
        sys.stderr.write(f"meanwhile its API answers at http://{config.serve.place}, without a key\n")
    workload = read_source(config.sources[SOURCE].model_dump(exclude_none=True)).workload
    if not isinstance(workload, CardWorkload):
        raise UsageError(f"the demo's pipeline has workload {type(workload).__name__}; expected cards")
    seen: list[dict[str, Any]] = []
    late = LatePublication(folder, records) if lake else None
    with OtherKernels() as kernels:

        def on_batch(delivery: Delivery, totals: Totals) -> None:
            seen.extend(map(dict, delivery.alerts))
            if late is not None:
                late.note(totals)
            if seen:
                kernels.begin()

        options = RunOptions(on_batch=on_batch, screen=sys.stderr if as_json else None)
        payment = partial(payment_to_ask, seen, workload, records)
        totals, asked = _streamed(config, folder, records, options, payment)
        frauds = workload.labels(0, records)
        figures = summary(config, totals, score(seen, frauds), latencies_ms(seen, _started_ms(config), pace))
        figures["asked"] = asked.to_json()
        _show(figures, None if late is None else partial(late.tour, frauds), as_json=as_json)
        if sys.stdout.isatty() and not as_json if console is None else console:
            go_on(config, folder, records)


def _streamed(
    config: Config, folder: Path, records: int, options: RunOptions, payment: Callable[[], Any]
) -> tuple[Totals, ApiExchange]:
    """Run the pipeline until so many records are judged, and ask its API about ``payment``."""
    from crossline.runtime.pipeline.assemble import assemble, session_for
    from crossline.runtime.spark_internals.gateway import end_session

    with stoppable() as stopping:
        spark = session_for(config)
        try:
            stopping.check()
            running = assemble(spark, config, options)
            stopping.stops(running)
            running.start()
            with served(config, folder) as problem:
                return running.run_until(records), ask(config, folder, payment(), problem)
        finally:
            end_session(spark)


def _show(figures: dict[str, Any], tour: Callable[[], list[Step]] | None, *, as_json: bool) -> None:
    """Print the summary, and what ``tour`` shows of the lake: after it, or as a part of the JSON."""
    if not as_json:
        sys.stdout.write(as_text(figures))
        sys.stdout.flush()
    if tour is not None:
        figures["lake"] = [asdict(step) for step in tour()]
    if as_json:
        sys.stdout.write(orjson.dumps(figures).decode() + "\n")
        sys.stdout.flush()


def _lay_out(folder: Path, records: int, pace: int, *, lake: bool = False) -> None:
    """The card example as a project of its own, its traffic paced."""
    _clear(folder)
    example = resources.files("crossline.cli") / "templates" / "cards"
    with resources.as_file(example) as path:
        shutil.copytree(path, folder, dirs_exist_ok=True)
    pipeline = folder / "pipeline.yaml"
    text = pipeline.read_text(encoding="utf-8")
    old = next(line for line in text.splitlines() if line.strip().startswith(f"{SOURCE}:"))
    # The last payment is of now, as they come at their own rate: ages, days and holds are then those of a live stream.
    base_ms = time.time_ns() // 1_000_000 - records * 1_000 // RATE_PER_S
    paced = f"records: {records}, pace_per_s: {pace}, base_ms: {base_ms}"
    new = f"  {SOURCE}: {{kind: generator, workload: cards, seed: 7, {paced}}}"
    # Cases say what is at risk by the records that alerts carry.
    text = text.replace(old, new).replace("defaults: {", "defaults: {record: all, ")
    pipeline.write_text(text + serve_section() + (SECTION if lake else ""), encoding="utf-8")


def _clear(folder: Path) -> None:
    """Make ``folder``, or take away the earlier demo in it; raises UsageError where anything else is there."""
    from crossline.runtime.machine.temporary_folders import is_held
    from crossline.runtime.snapshot.checkpoint import HELD

    target = Path(os.path.realpath(folder))
    if folder.is_symlink():
        raise UsageError(f"{folder} is a link, to {target}: what lies there is not a demo's to delete; name a folder")
    for kept, what in ((Path.cwd(), "the working directory"), (Path("~").expanduser(), "your home")):
        if kept.resolve().is_relative_to(target):
            raise UsageError(f"{folder} is {what} or holds it; name a folder of its own, such as out/demo")
    try:
        target.mkdir(parents=True, exist_ok=True)
        entries = list(target.iterdir())
        if entries and not (target / MARKER).is_file():
            raise UsageError(
                f"{folder} is not empty, and no demo made it (it has no {MARKER}); remove it, or name another folder"
            )
        if is_held(target / CHECKPOINT / HELD):
            raise UsageError(f"a demo, or another run, is at work in {folder}; stop that one first, or name a folder")
        # The mark goes first and stays to the end: a demo that was cut off half way is still known as one.
        (target / MARKER).touch()
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != MARKER:
                entry.unlink()
    except FileExistsError:
        raise UsageError(f"{folder} is a file; expected a folder that is new, empty, or an earlier demo's") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be made ready: {error.filename}: {error.strerror}") from None


def _started_ms(config: Config) -> int:
    started = Path(config.engine.checkpoint) / "sources" / SOURCE / "started.json"
    return int(json.loads(started.read_text())["started_ms"])


def latencies_ms(alerts: Sequence[Mapping[str, Any]], started_ms: int, pace: int) -> list[float]:
    """For each alert: from when its triggering payment was due to when the alert was ready for delivery.

    A payment's number is in its id (t0000123); payment n is due at n / pace seconds after the start.
    """
    return [
        parse_instant_ms(alert["detected_at"]) - (started_ms + int(alert["record_id"].lstrip("t")) * 1000 / pace)
        for alert in alerts
    ]


def summary(config: Config, totals: Totals, judged: Score, latencies: Sequence[float]) -> dict[str, Any]:
    """The figures of the demo."""
    from crossline.cli.summary import summary_json

    return {
        **summary_json(config, totals),
        "recall": judged.found.recall,
        "precision": judged.raised.precision,
        "scenarios": {name: found.recall for name, found in judged.scenarios.items()},
        "latency_p50_ms": round(float(np.percentile(latencies, 50))) if latencies else None,
        "latency_p99_ms": round(float(np.percentile(latencies, 99))) if latencies else None,
        "project": str(Path(config.engine.checkpoint).parent.parent),
    }


def as_text(figures: Mapping[str, Any]) -> str:
    """The figures, to read."""
    recall, precision = figures["recall"], figures["precision"]
    alerts, planted = (
        Listing("rule", "alerts"),
        Listing("planted fraud", "found"),
    )
    for rule, count in figures["alerts"].items():
        alerts.add(rule, f"{count:,}")
    for name, found in figures["scenarios"].items():
        planted.add(name, "-" if found is None else f"{found:.0%}")
    console = screen()
    with console.capture() as captured:
        console.print(
            f"\n{figures['records']:,} payments in {figures['elapsed_ms'] / 1000:.1f} s "
            f"({figures['records_per_s'] or 0:,} records/s, as they were sent)\n"
        )
        console.print(alerts, Text(), planted, Text(), sep="")
        console.print(
            f"recall {recall:.2f}, precision {precision:.2f}"
            if recall is not None and precision is not None
            else "no fraud planted"
        )
        if figures["latency_p50_ms"] is not None:
            console.print(
                f"from payment due to alert: p50 {figures['latency_p50_ms']} ms, p99 {figures['latency_p99_ms']} ms"
            )
        if "asked" in figures:
            console.print("", *map(printable, as_lines(figures["asked"])), "", sep="\n")
        console.print(printable(f"results: {', '.join(figures['results'])}"))
        console.print(printable(f"next: crossline alerts list --db {figures['results'][0]}"))
    return captured.get()
