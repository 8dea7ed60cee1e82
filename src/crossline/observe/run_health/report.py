"""The health report of a pipeline: state, figures, batches, dead letters, sinks, replicas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crossline.basics.errors import CrosslineError, RetryableError
from crossline.basics.times import format_instant
from crossline.logs import get_logger
from crossline.observe.objectives.minute_file import MINUTE_MS, MinuteFile
from crossline.observe.objectives.report import SETTLES_MS
from crossline.observe.run_health.entries import batches_of, dead_of, figures_of, sinks_of
from crossline.observe.run_health.history import DAY, HOUR, RunHistory
from crossline.observe.run_health.scrape import Scrape, scrape
from crossline.settings.config import PipelineConfig

READY, BEHIND, UNKNOWN = "ready", "not ready", "unknown"
NO_WATCH = "the pipeline file has no section watch, so that a run serves no figures; add watch: {}"
NO_SLO = "the pipeline file has no section slo, so that no minutes are stored to compare with"

log = get_logger(__name__)


class ReplicaLag(NamedTuple):
    """A replica by its ``number``: the ``batch`` of its state, how far behind that is; None: it has none yet."""

    number: int
    batch: int | None
    ms: int | None
    ready: bool


def running_report(
    config: PipelineConfig, now_ms: int, replicas: Callable[[], Sequence[ReplicaLag]] | None = None
) -> dict[str, Any]:
    """What is known of the run of ``config``, as JSON. Waits for the network and the disk: for a thread.

    Without an answer from a run its values are None and ``state`` is unknown; ``reasons`` say why.
    """
    seen, why = _seen(config, now_ms)
    history, missing = _history(config, now_ms)
    state = UNKNOWN if seen is None else READY if seen.ready else BEHIND
    last = history.last
    limit_ms = config.serve.behind_max if config.serve is not None else None
    return {
        "pipeline": config.name,
        "as_of": format_instant(now_ms),
        "state": state,
        "reasons": [why] if seen is None else list(seen.reasons),
        "began": None if seen is None or seen.began_ms is None else format_instant(seen.began_ms),
        "figures": [each.to_json() for each in figures_of(config, seen, history)],
        "minutes": {"last": None if last is None else format_instant((last + 1) * MINUTE_MS), "why": missing},
        "run": None if seen is None else batches_of(seen),
        "dead_letters": None if seen is None else dead_of(seen),
        "sinks": None if seen is None else list(sinks_of(seen)),
        "replicas": None
        if replicas is None
        else [{**each._asdict(), "limit_ms": limit_ms, "crossed": not each.ready} for each in replicas()],
    }


def _seen(config: PipelineConfig, now_ms: int) -> tuple[Scrape | None, str]:
    if config.watch is None:
        return None, NO_WATCH
    try:
        return scrape(config.watch.place, config.name, now_ms), ""
    except RetryableError as error:
        return None, str(error)


def _history(config: PipelineConfig, now_ms: int) -> tuple[RunHistory, str]:
    """The minutes of two days, and why there are none."""
    end = (now_ms - SETTLES_MS) // MINUTE_MS
    if config.slo is None:
        return RunHistory({}, end), NO_SLO
    try:
        return RunHistory(MinuteFile(Path(config.slo.path), config.name).figures(end - 2 * DAY - HOUR, end), end), ""
    except (CrosslineError, OSError) as error:
        log.warning("the minutes of the run cannot be read", error=str(error))
        return RunHistory({}, end), str(error)
