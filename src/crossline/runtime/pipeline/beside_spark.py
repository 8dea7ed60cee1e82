"""What runs batches beside Spark, without a job, where that can be."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from pathlib import Path

from crossline.runtime.java.launch import started
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
    clients = {source.stream: source.client for source in sources if source.client is not None}
    here = settings.one_machine and settings.in_process
    listed = {source.stream: source.listed for source in sources if source.listed is not None}
    if java is None or java.zygote is None or not here or len(clients) + len(listed) < len(sources):
        return None
    # It never waits: work that it cannot do at once goes to Spark's tasks, which can be ended.
    intakes = {s.stream: s.intake.hurried() if isinstance(s.intake, KafkaIntake) else s.intake for s in sources}
    folder = java.folder.path
    setup = Setup(snapshot, cache, settings.partitions, folder, intakes, clients, settings.topic, listed=listed)
    return InProcessRunner(folder / ZYGOTE, setup, stopping)


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


def spill_folder_of(settings: PipelineSettings) -> Path | None:
    """Where tasks put what others of this machine read, within Java's folder; None where they may run elsewhere."""
    java = started()
    if java is None or not settings.one_machine:
        return None
    return java.folder.path / f"spill-{secrets.token_hex(8)}"
