"""``crossline serve PIPELINE``: answer requests for decisions."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from crossline.cli.serve.setting import serve_settings
from crossline.core.basics.errors import UsageError
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.watch import Place


def register(app: typer.Typer) -> None:
    """Add the command."""
    said = "Answer requests for decisions over HTTP; the word may be left out: crossline serve PIPELINE."
    app.command(name="start", help=said)(start)


def start(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one value a line.")] = False,
) -> None:
    """Answer requests for decisions, by the pipeline file's section serve."""
    config, _ = serve_settings(pipeline)
    try:
        import uvloop
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the API needs {error.name}, which is not installed: pip install 'crossline[serve]'"
        ) from None
    uvloop.run(_serve(pipeline.absolute(), config, as_json=as_json))


async def _serve(pipeline: Path, config: PipelineConfig, *, as_json: bool) -> None:
    from crossline.serve.app.compose import app_of, collector_of
    from crossline.serve.app.server import listening, serve
    from crossline.serve.assembly import checked, running
    from crossline.serve.metrics.exposition import told_at
    from crossline.serve.startable import check_files

    settings, _ = checked(config)
    check_files(settings)
    bound, place = listening(settings.place)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(config) as api:
        app, close = app_of(api, pipeline)
        try:
            with told_at(settings, collector_of(api)):
                await serve(app, bound, settings, stop, lambda: _tell(config, place, as_json=as_json))
        finally:
            await close()


def _tell(config: PipelineConfig, place: Place, *, as_json: bool) -> None:
    settings = config.serve
    assert settings is not None  # noqa: S101 - it was checked
    url = f"{'http' if settings.tls is None else 'https'}://{place}"
    if as_json:
        said = json.dumps({"pipeline": config.name, "url": url, "open": settings.open})
    else:
        asked = "nobody is asked for a key" if settings.open else f"keys: {settings.keys}"
        if not settings.open and settings.oidc is None and not Path(settings.keys).exists():
            asked += ", which is not there: nobody can ask until crossline serve keys create has made one"
        said = f"the decision API of {config.name} answers at {url}   ({asked})"
    sys.stdout.write(f"{said}\n")
    sys.stdout.flush()
