"""Liveness and readiness of a run, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.observe.watch.run_figures import SinkFigures
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog

NO_ANSWER_S = 10.0  # of Java, after which it does not live


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """``reasons``: why not; none: yes."""

    reasons: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Yes."""
        return not self.reasons

    def to_json(self) -> dict[str, Any]:
        """As it is served."""
        return {"ok": self.ok, "reasons": list(self.reasons), **self.details}


def lives(*, started: bool, alive: bool | None, silent_s: float, stopped: bool) -> HealthStatus:
    """Whether the query lives. ``alive`` None: Java was not asked yet; ``silent_s``: for how long it gave no answer."""
    if stopped:
        return HealthStatus(("the pipeline has ended",))
    if not started:
        return HealthStatus((), {"state": "starting"})
    if silent_s > NO_ANSWER_S:
        return HealthStatus((f"Java has not answered for {silent_s:.0f} s",))
    if alive is False:
        return HealthStatus(("the query is dead: see the log of the run",))
    return HealthStatus((), {"state": "running"})


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How a run stands: ``since_s`` is when it was started, ``last_batch_s`` when the last batch was done."""

    now_s: float
    since_s: float
    last_batch_s: float | None
    within_s: float


def keeps_up(
    life: HealthStatus,
    standing: PipelineStatus,
    progress: RunProgress,
    waiting: Iterable[SourceBacklog],
    sinks: Mapping[str, SinkFigures],
) -> HealthStatus:
    """Whether it is started with its rules, its last batch is young enough where input waits, and no sink is down."""
    if not life.ok:
        return life
    if not standing.started:
        return HealthStatus(("it is starting: its rules are not loaded yet",))
    reasons = [f"a disk takes nothing, and the batch is held: {standing.held}"] if standing.held else []
    reasons += [*_slow(standing, progress, [each for each in waiting if each.amount])]
    for name, each in sinks.items():
        if each.behind_since_s is not None:
            behind_s = max(0.0, progress.now_s - each.behind_since_s)
            reasons.append(f"sink {name} has not accepted the batch for {behind_s:.0f} s")
    return HealthStatus(tuple(reasons), {"rules": dict(standing.rules)})


def _slow(standing: PipelineStatus, progress: RunProgress, waiting: Sequence[SourceBacklog]) -> Iterable[str]:
    if standing.batch_began_s is not None:
        running_s = progress.now_s - standing.batch_began_s
        if running_s > progress.within_s:
            yield f"a batch has been running for {running_s:.0f} s, expected at most {progress.within_s:.0f}"
        return
    last_s = max(progress.since_s, progress.last_batch_s or 0.0)
    age_s = progress.now_s - last_s
    if age_s > progress.within_s and waiting:
        backlog = ", ".join(f"{each.amount:,} {each.unit} of {each.stream}" for each in waiting)
        yield f"no batch for {age_s:.0f} s, expected one within {progress.within_s:.0f}, while {backlog} wait"
