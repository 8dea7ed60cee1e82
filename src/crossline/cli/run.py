"""``crossline run``: a pipeline from its file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
import yaml

from crossline.basics.errors import CrosslineError, SinkError, UsageError
from crossline.cli.launch.startup import Startup
from crossline.cli.logs import LogFormat, configure
from crossline.cli.signals import Stopping, stoppable
from crossline.cli.summary import ProgressLine, summary_json, summary_text
from crossline.logs import of_run
from crossline.runtime.java.launch import RunningJava, kill_java, launch_ahead
from crossline.runtime.machine.freed_memory import DRIVER_ARENAS, keep_freed_memory
from crossline.runtime.machine.thread_turns import take_short_turns

if TYPE_CHECKING:
    from crossline.io.sinks.base import Delivery
    from crossline.observe.telemetry import Telemetry
    from crossline.runtime.changes.stored_past import StoredPast
    from crossline.runtime.pipeline.pipeline import Pipeline
    from crossline.runtime.snapshot.checkpoint import Checkpoint
    from crossline.runtime.work.totals import Totals
    from crossline.runtime.workers.companion_process import CompanionProcess
    from crossline.serve.api_process import ApiProcess
    from crossline.settings.config import PipelineConfig

LAKE_NICE = 10
LAKE_END_S, LAKE_DRAIN_S = 75.0, 3_600.0  # how long the lake writer may take to end


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        name="run", help="Run a pipeline until stopped; with --drain, process the available records, then exit."
    )(run)


def run(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    drain: Annotated[bool, typer.Option("--drain", help="Process the available records and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as JSON on stdout.")] = False,
    allow_no_rules: Annotated[
        bool, typer.Option("--allow-no-rules", help="Start even without a single valid rule.")
    ] = False,
    with_api: Annotated[
        bool, typer.Option("--serve", help="Serve the decision API too, by the section `serve` of the file.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Lines of the log; auto: text on a terminal, else json.")
    ] = LogFormat.AUTO,
) -> None:
    """Run ``pipeline``; relative paths in it start at its folder."""
    if log_format != LogFormat.AUTO:
        configure(log_format)
    progress = ProgressLine(sys.stderr)
    startup = Startup(progress.show)
    text = None
    with stoppable(endless=not drain) as stopping:
        try:
            startup.step("loading")
            wanted = _Wanted(drain, as_json, allow_no_rules, with_api)
            text = _run(pipeline, stopping, startup, progress, wanted)
        finally:
            startup.done()
            progress.done()
    if text is not None:  # it was not stopped before it began
        sys.stdout.write(f"{text}\n")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options of the command line."""

    drain: bool
    as_json: bool
    allow_no_rules: bool
    with_api: bool


def _run(pipeline: Path, stopping: Stopping, startup: Startup, progress: ProgressLine, wanted: _Wanted) -> str:
    """Run it to its end; the summary."""
    ahead = _launch_ahead(pipeline)
    take_short_turns()
    watch = held = None
    from crossline.runtime.pipeline.assemble import RunOptions, assemble, hold_ahead, read_config, session_for
    from crossline.runtime.spark_internals.gateway import end_session, raise_if_java_ended
    from crossline.settings.config import in_folder

    try:
        config = in_folder(read_config(str(pipeline)), str(pipeline.parent.absolute()))
        _check_early(pipeline, config, wanted)
        stopping.check()
        of_run(pipeline=config.name)
        watch = _watching(config)
        held = hold_ahead(config, ahead)
        startup.step("Java and Spark")
        spark = session_for(config)
    except BaseException:
        _give_up(held, watch, ahead)
        raise

    beside = ExitStack()
    try:
        stopping.check()
        startup.step("rules and sinks")
        options = RunOptions(
            complete=wanted.drain,
            on_batch=_on_batch(startup, progress, watch),
            screen=sys.stderr if wanted.as_json else None,
            sink_watch=None if watch is None else watch.sinks,
            allow_no_rules=wanted.allow_no_rules,
            stored_past=_stored_past(config),
        )
        keep_freed_memory(arenas_max=DRIVER_ARENAS)  # a batch takes the megabytes that the one before freed
        running = assemble(spark, config, options, held=held)
        if watch is not None:
            watch.follow(running)
        _start_beside(beside, pipeline, config, running, wanted)
        stopping.stops(running)
        running.start()
        startup.step("first batch")
        totals = running.drain() if wanted.drain else running.wait()
        running.stop()
        if wanted.drain and _writes_lake(config):
            beside.close()
            _finish_lake(pipeline, running)
    except Exception as failure:
        raise_if_java_ended(failure)
        raise
    finally:
        startup.done()
        progress.done()
        beside.close()
        if watch is not None:
            watch.close()
        end_session(spark)
    if wanted.as_json:
        return orjson.dumps(summary_json(config, totals, startup.spent_ms)).decode()
    return summary_text(config, totals, startup.spent_ms)


def _give_up(held: Checkpoint | None, watch: Telemetry | None, java: RunningJava | None) -> None:
    """Let go of what a start had before there was a session."""
    if held is not None:
        held.release()
    if watch is not None:
        watch.close()
    if java is not None:
        kill_java(java)


def _on_batch(startup: Startup, progress: ProgressLine, watch: Telemetry | None) -> Callable[[Delivery, Totals], None]:
    def report(delivery: Delivery, totals: Totals) -> None:
        startup.done()
        progress.batch(delivery, totals)
        if watch is not None:
            watch.batch(delivery, totals)

    return report


def _check_early(pipeline: Path, config: PipelineConfig, wanted: _Wanted) -> None:
    """What would fail later is refused before Spark starts: the API would end, and the pipeline run on unasked."""
    from crossline.io.tokens.opening import check_stores

    check_stores(config.streams)
    if not wanted.with_api:
        return
    if config.serve is None:
        raise UsageError(f"{pipeline}: found no serve; expected serve: {{listen: 127.0.0.1:8080}} to serve the API by")
    from crossline.serve.start_check import check_startable

    check_startable(config)


def _api(pipeline: Path) -> ApiProcess:
    from crossline.serve.api_process import ApiProcess

    return ApiProcess(pipeline)


def _start_beside(
    beside: ExitStack, pipeline: Path, config: PipelineConfig, running: Pipeline, wanted: _Wanted
) -> None:
    """Start the processes beside the run: the API, the lake writer."""
    if wanted.with_api:
        beside.enter_context(_api(pipeline))
    if _writes_lake(config):
        beside.enter_context(_lake_writer(pipeline, running, drain=wanted.drain))


def _writes_lake(config: PipelineConfig) -> bool:
    return config.lake is not None and config.lake.writer


def _stored_past(config: PipelineConfig) -> Callable[[str], StoredPast] | None:
    """Where new rules find the records that topics have deleted: in the lake."""
    if config.lake is None:
        return None

    def past(folder: str) -> StoredPast:
        from crossline.lake.warm_start import LakePast

        return LakePast(config, folder)

    return past


def _lake_writer(pipeline: Path, running: Pipeline, *, drain: bool) -> CompanionProcess:
    """The writer beside the run. At the end it writes what is committed: with ``drain``, however long that takes."""
    from crossline.runtime.workers.companion_process import CompanionProcess

    arguments = ["lake", "write", str(pipeline), "--checkpoint-folder", running.checkpoint_folder]
    end_s = LAKE_DRAIN_S if drain else LAKE_END_S
    return CompanionProcess("the lake writer", arguments, nice=LAKE_NICE, end_s=end_s)


def _finish_lake(pipeline: Path, running: Pipeline) -> None:
    """Write what the writer beside the run has not written: a short run may end before that has begun."""
    arguments = ["lake", "write", str(pipeline), "--once", "--checkpoint-folder", running.checkpoint_folder]
    command = [sys.executable, "-m", "crossline.cli.main", *arguments]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False).returncode
    if code:
        raise SinkError(f"the lake has not got all (exit code {code}); run: crossline lake write {pipeline} --once")


def _watching(config: PipelineConfig) -> Telemetry | None:
    """Who watches it, from before Java is up: whether the place is free shows at once."""
    from crossline.observe.tracing import spans_wanted

    if config.watch is None and config.slo is None and not spans_wanted(None, os.environ):
        return None
    from crossline.observe.telemetry import Telemetry

    return Telemetry.of(config)


def _launch_ahead(pipeline: Path) -> RunningJava | None:
    """Have Java come up while the rest is loaded and the file is read with care; whatever is wrong shows then."""
    with suppress(OSError, yaml.YAMLError, CrosslineError):
        body = yaml.load(pipeline.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - it is safe
        engine = body.get("engine") if isinstance(body, dict) else None
        if isinstance(engine, dict) and (engine.get("spark") or engine.get("python")):
            return None  # Java is started by these
        master = engine.get("master") if isinstance(engine, dict) else None
        return launch_ahead(master if isinstance(master, str) else None)
    return None
