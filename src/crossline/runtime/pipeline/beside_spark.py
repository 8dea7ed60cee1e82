"""What runs batches beside Spark, without a job, where that can be."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from crossline.runtime.java.launch import started, zygote_of
from crossline.runtime.machine.processors import processors
from crossline.runtime.pipeline.driver_standby import DriverStandby, DriverStates, run_chunks, run_ranges
from crossline.runtime.pipeline.in_process_runner import InProcessRunner
from crossline.runtime.pipeline.planner import PipelineSettings
from crossline.runtime.pipeline.stage_processes import StageProcesses
from crossline.runtime.snapshot.snapshot import SnapshotSource
from crossline.runtime.sources.intake import KafkaIntake
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.workers.in_process_worker import Setup
from crossline.runtime.workers.stage_worker import StageSetup

ZYGOTE = "zygote"  # its socket in Java's folder


def in_process_runner(
    settings: PipelineSettings,
    sources: Sequence[SourcePlan],
    snapshot: SnapshotSource,
    cache: ShardCache,
    stopping: threading.Event,
) -> InProcessRunner | None:
    """What runs batches without a job; None: it is not to, tasks run elsewhere, or batches of a source are large."""
    java = started()
    here = settings.one_machine and settings.in_process
    if java is None or java.zygote is None or not here or not _small(sources):
        return None
    folder = java.folder.path
    return InProcessRunner(folder / ZYGOTE, _setup(settings, sources, snapshot, cache, folder), stopping)


def stage_processes(
    settings: PipelineSettings,
    sources: Sequence[SourcePlan],
    snapshot: SnapshotSource,
    cache: ShardCache,
    spill_folder: Path | None,
    stopping: threading.Event,
) -> StageProcesses | None:
    """What runs batches of chunks without a job; None: it is not to, tasks run elsewhere, or a source has none."""
    java = started()
    if java is None or java.zygote is None or spill_folder is None or not settings.in_process:
        return None
    if any(source.chunks is None for source in sources):
        return None
    folder, count = java.folder.path, settings.partitions
    intakes = {source.stream: source.intake for source in sources}
    setup = StageSetup(snapshot, cache, count, folder, spill_folder, intakes, settings.topic)
    return StageProcesses(folder / ZYGOTE, setup, count, stopping)


def driver_standby(
    settings: PipelineSettings,
    sources: Sequence[SourcePlan],
    snapshot: SnapshotSource,
    cache: ShardCache,
    stopping: threading.Event,
) -> DriverStandby | None:
    """What judges while no executor can; None: it is not to, or there is always one, or no process can read a source.

    Where Spark runs elsewhere there is no zygote yet; it is started here, since it takes seconds to load.
    """
    java = started()
    if java is None or not settings.placement or not settings.standby or not settings.in_process:
        return None
    folder = java.folder.path / f"driver-{secrets.token_hex(4)}"
    path, count = java.folder.path / ZYGOTE, max(1, min(settings.partitions, processors()))
    if all(source.chunks is not None for source in sources):
        spill_folder = java.folder.path / f"spill-{secrets.token_hex(8)}"
        intakes = {source.stream: source.intake for source in sources}
        given = StageSetup(snapshot, cache, count, folder, spill_folder, intakes, settings.topic, elsewhere=True)
        processes = StageProcesses(path, given, count, stopping)
        run, close = run_chunks(processes, settings, sources, spill_folder), processes.close
    elif _small(sources):
        setup = _setup(settings, sources, snapshot, cache, folder, elsewhere=True)
        runner = InProcessRunner(path, setup, stopping)
        run, close = run_ranges(runner, settings, sources), runner.close
    else:
        return None
    zygote_of(java)
    states = DriverStates(partial(zygote_of, java), folder, count, stopping)
    return DriverStandby(states, snapshot, cache, run, close, stopping)


def _small(sources: Sequence[SourcePlan]) -> bool:
    """Whether one process can read batches of all of them."""
    return all(source.client is not None or source.listed is not None for source in sources)


def _setup(
    settings: PipelineSettings,
    sources: Sequence[SourcePlan],
    snapshot: SnapshotSource,
    cache: ShardCache,
    folder: Path,
    *,
    elsewhere: bool = False,
) -> Setup:
    """Of a process that reads topics; ``folder``: where state servers are announced."""
    clients = {source.stream: source.client for source in sources if source.client is not None}
    listed = {source.stream: source.listed for source in sources if source.listed is not None}
    # It never waits: work that it cannot do at once goes to Spark's tasks, which can be ended.
    intakes = {s.stream: s.intake.hurried() if isinstance(s.intake, KafkaIntake) else s.intake for s in sources}
    return Setup(
        snapshot,
        cache,
        settings.partitions,
        folder,
        intakes,
        clients,
        settings.topic,
        listed=listed,
        elsewhere=elsewhere,
    )


def spill_folder_of(settings: PipelineSettings) -> Path | None:
    """Where tasks put what others of this machine read, within Java's folder; None where they may run elsewhere."""
    java = started()
    if java is None or not settings.one_machine:
        return None
    return java.folder.path / f"spill-{secrets.token_hex(8)}"
