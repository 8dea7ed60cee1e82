"""What the page of a pipeline's health shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Shell


@dataclass(frozen=True, slots=True)
class Stat:
    """A figure. ``against``: its limit; ``before``: the day before; ``points``: of the last 24 hours, 0 to 1.

    ``caption``: what the drawing shows, in words.
    """

    label: str
    value: str
    over: str
    against: str
    before: str
    crossed: bool
    points: tuple[float, ...]
    caption: str


@dataclass(frozen=True, slots=True)
class SinkRow:
    """A sink. ``state``: writing, or behind."""

    name: str
    state: str
    behind: str
    against: str
    crossed: bool
    took: str
    retries: str


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """A process that holds the state and answers."""

    number: int
    behind: str
    against: str
    batch: str
    crossed: bool


@dataclass(frozen=True, slots=True)
class DeadRow:
    """Records of a stream that were refused for one reason."""

    stream: str
    reason: str
    count: str


@dataclass(frozen=True, slots=True)
class PipelineFact:
    """A line beneath the figures. ``against``: what it is held against; empty: nothing."""

    label: str
    value: str
    against: str = ""
    crossed: bool = False


@dataclass(frozen=True, slots=True)
class PipelinePage:
    """``state``: ready, not ready or unknown, and ``reasons`` for it. ``began``: when the run was started.

    ``stale``: since when no minute has been written, where that is long ago; ``no_minutes``: why there are none.
    ``runs``: whether a run answers; its values are empty otherwise. ``failed``: why the API gave no answer.
    """

    TEMPLATE: ClassVar[str] = "pages/pipeline/pipeline.html"
    shell: Shell
    as_of: Moment | None
    state: str
    reasons: tuple[str, ...]
    began: Moment | None
    stats: tuple[Stat, ...]
    facts: tuple[PipelineFact, ...]
    sinks: tuple[SinkRow, ...]
    replicas: tuple[ReplicaRow, ...]
    dead: tuple[DeadRow, ...]
    runs: bool
    stale: Moment | None
    no_minutes: str
    failed: str
    health_path: str
    objectives_path: str
