"""``crossline serve PIPELINE``: answer requests for decisions."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from crossline.basics.errors import UsageError
from crossline.basics.texts.uris import check_uri
from crossline.cli.serve.setting import serve_settings
from crossline.io.objects.location import is_uri
from crossline.settings.config import PipelineConfig
from crossline.settings.process.serve import ServeSettings
from crossline.settings.watch import Address


def register(app: typer.Typer) -> None:
    """Add the command."""
    text = "Answer requests for decisions over HTTP; the word may be left out: crossline serve PIPELINE."
    app.command(name="start", help=text)(start)


def start(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    replica_of: Annotated[
        str | None,
        typer.Option(
            "--replica-of",
            metavar="CHECKPOINT",
            help="The checkpoint of a pipeline that runs elsewhere: a mounted folder, or a URI.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Answer requests for decisions, by the pipeline file's section serve.

    With --replica-of it is an API of its own, on a machine that the pipeline does not know of: it reads the checkpoint
    and writes nothing there.
    """
    config, settings = serve_settings(pipeline)
    config = followed(config, settings, replica_of)
    try:
        import uvloop
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the API needs {error.name}, which is not installed: pip install 'crossline[serve]'"
        ) from None
    uvloop.run(_serve(pipeline.absolute(), config, replica_of, as_json=as_json))


def followed(config: PipelineConfig, settings: ServeSettings, replica_of: str | None) -> PipelineConfig:
    """The configuration over the checkpoint ``replica_of``, where one is given.

    Raises UsageError if that cannot be one.
    """
    if replica_of is None:
        return config
    place = replica_of
    if is_uri(place):
        if (wrong := check_uri(place)) is not None:
            raise UsageError(f"--replica-of: found {wrong[0]}; expected {wrong[1]}")
    elif not (place := str(Path(place).absolute())) or not Path(place).is_dir():
        raise UsageError(
            f"--replica-of: found no folder {replica_of}; expected the pipeline's checkpoint (engine.checkpoint), "
            "mounted here, or its URI"
        )
    if settings.ledger is None:
        sys.stderr.write(
            "serve.ledger is not set: what is answered here no other API knows, so the same id may be answered twice, "
            "and otherwise. Where there is another API on this pipeline, give both one ledger in PostgreSQL.\n"
        )
    return replace(config, engine=config.engine.model_copy(update={"checkpoint": place}))


async def _serve(pipeline: Path, config: PipelineConfig, replica_of: str | None, *, as_json: bool) -> None:
    from crossline.serve.app.compose import app_of, collectors_of
    from crossline.serve.app.server import listening, serve
    from crossline.serve.assembly import checked, running
    from crossline.serve.metrics.exposition import metrics_endpoint
    from crossline.serve.start_check import check_files

    settings, _ = checked(config)
    check_files(settings)
    bound, place = listening(settings.place)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with running(config, None if replica_of is None else config.engine.checkpoint) as api:
        app, close, health = app_of(api, pipeline)
        _spare_pauses()
        try:
            with metrics_endpoint(settings, *collectors_of(api, health)):
                await serve(app, bound, settings, stop, lambda: _report_start(config, place, as_json=as_json))
        finally:
            await close()


def _spare_pauses() -> None:
    """A look at all objects for garbage takes tens of milliseconds, for which every request would wait.

    What is there by now stays, and is looked at no more; of what comes, little is in circles (``collect_seldom``).
    """
    gc.collect()
    gc.freeze()


def _report_start(config: PipelineConfig, place: Address, *, as_json: bool) -> None:
    settings = config.serve
    assert settings is not None  # noqa: S101 - it was checked
    url = f"{'http' if settings.tls is None else 'https'}://{place}"
    if as_json:
        text = json.dumps({"pipeline": config.name, "url": url, "open": settings.open})
    else:
        asked = "no key is needed" if settings.open else f"keys: {settings.keys}"
        if not settings.open and settings.oidc is None and not Path(settings.keys).exists():
            asked += ", which is missing: every request is refused until crossline serve keys create has made a key"
        text = f"the decision API of {config.name} answers at {url}   ({asked})"
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
