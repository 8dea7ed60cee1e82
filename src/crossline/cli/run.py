"""``crossline run``: a pipeline from its file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import orjson
import typer

from crossline.cli.stopping import stoppable
from crossline.cli.summary import Progress, summary_json, summary_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="run", help="Run a pipeline until stopped; with --drain, process what is there and exit.")(run)


def run(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    drain: Annotated[bool, typer.Option("--drain", help="Process what is there and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout.")] = False,
) -> None:
    """Run ``pipeline``; relative paths in it start at its folder."""
    from crossline.core.settings.config import in_folder
    from crossline.engine.runtime.gateway import end_session
    from crossline.engine.spark.assemble import RunOptions, assemble, read_config, session_for

    config = in_folder(read_config(str(pipeline)), str(pipeline.parent.absolute()))
    totals = None
    with stoppable(endless=not drain) as stopping:
        spark = session_for(config)
        progress = Progress(sys.stderr)
        try:
            stopping.check()
            options = RunOptions(complete=drain, on_batch=progress.batch, screen=sys.stderr if as_json else None)
            running = assemble(spark, config, options)
            stopping.stops(running)
            running.start()
            totals = running.drain() if drain else running.wait()
            running.stop()
        finally:
            progress.done()
            end_session(spark)
    if totals is not None:
        text = orjson.dumps(summary_json(config, totals)).decode() if as_json else summary_text(config, totals)
        sys.stdout.write(f"{text}\n")
