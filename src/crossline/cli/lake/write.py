"""``crossline lake write``: the writer of a pipeline's lake."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.terminal.notes import note, write_lines
from crossline.rule_registry.content import read_pipeline_in_place

if TYPE_CHECKING:
    from crossline.lake.writing.writer import Written


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Follow the committed batches of a pipeline and append them to its tables."
    app.command(name="write", help=text)(write)


def write(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    once: Annotated[bool, typer.Option("--once", help="Write what is committed now, and exit.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint-folder", help="Folder of the checkpoint on this machine, if it is not the file's."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, one for each run of batches.")] = False,
) -> None:
    """Append each committed batch to the tables once; restart it at any time, from anywhere that reaches both.

    A run with `lake:` starts it beside itself. It needs neither Spark nor Java.
    """
    do_without_pandas()
    config = read_pipeline_in_place(pipeline)
    if config.lake is None:
        raise UsageError(f"{pipeline}: found no section lake; expected one, for example lake: {{path: out/lake}}")
    from crossline.lake.maintenance.schedule import maintain_all
    from crossline.lake.reading import LakeReader
    from crossline.lake.state.schedule import state_schedule_of
    from crossline.lake.state.state_snapshots import StateSnapshots
    from crossline.lake.writing.backlog import BacklogAlarm
    from crossline.lake.writing.follow import Follower, until_opened
    from crossline.lake.writing.writer_setup import writer_of

    stop = threading.Event()

    def on_signal(_: int, __: Any) -> None:
        stop.set()

    with ExitStack() as opened:
        if once:
            writer = opened.enter_context(writer_of(config, checkpoint))
        else:
            _end_by(on_signal)
            found = until_opened(lambda: opened.enter_context(writer_of(config, checkpoint)), stop)
            if found is None:
                return
            writer = found
        reader = LakeReader(writer.lake, config)
        state = state_schedule_of(config, StateSnapshots(writer.lake), writer.reader.folder)
        follower = Follower(
            writer,
            config.lake.commit_every / 1_000,
            on_written=_report_json if as_json else _report,
            check=BacklogAlarm(writer.spool, writer.reader).check,
            maintain=partial(maintain_all, reader, config.lake),
            maintain_every_s=config.lake.maintain_every / 1_000,
            state=state,
        )
        if once:
            _end_by(on_signal)
            follower.catch_up(stop)
        else:
            follower.run(stop)


def _end_by(handler: Callable[[int, Any], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _report(written: Written) -> None:
    rows = ", ".join(f"{count:,} {name}" for name, count in written.rows.items() if count)
    slowest = f"; slowest commit {max(written.commit_ms.values())} ms" if written.commit_ms else ""
    note(f"batches {written.first} to {written.last}: {rows or 'nothing new'}{slowest}")


def _report_json(written: Written) -> None:
    write_lines([orjson.dumps(asdict(written))])
