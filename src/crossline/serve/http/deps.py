"""What the routes stand on: the pipeline that is served, and what others keep for it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from crossline.io.stores.factory import store_of
from crossline.io.stores.protocol import Store
from crossline.serve.http.problems import ProblemError
from crossline.settings.config import PipelineConfig

if TYPE_CHECKING:
    from crossline.observe.run_health.report import ReplicaLag
    from crossline.serve.cases.service import CaseService
    from crossline.serve.dead_letters.resend import DeadLetters
    from crossline.serve.decisions.store import DecisionStore
    from crossline.serve.http.events.source import EventSource
    from crossline.serve.http.writes.casework import CaseStore

BODY_MAX = 8 << 20


def wall_ms() -> int:
    """The wall clock."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a replica answers. ``details``: its state, which is no secret (``/readyz`` needs no key)."""

    ok: bool
    details: Mapping[str, Any] = field(default_factory=dict)


async def always_ready() -> Readiness:
    """Where nothing has to be waited for."""
    return Readiness(ok=True)


class FigureReader(Protocol):
    """The figures of a key, and rules without one, each as JSON."""

    @property
    def figures(self) -> Sequence[Mapping[str, Any]]:
        """Each with its name and rule, ``value``, ``count``, what it is held against, its window, and ``as_of``."""
        ...

    @property
    def missing(self) -> Sequence[Mapping[str, Any]]:
        """Each ``{rule_id, why}``."""
        ...


class FigureSource(Protocol):
    """A replica, asked for the figures of a key as they are now."""

    async def figures(self, field: str, value: str) -> FigureReader:
        """Of each rule in force whose key is ``field`` alone, looking back from the stream's own clock.

        Raises RetryableError if no replica answers.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommandWaits:
    """How long requests wait for the command line, in seconds.

    ``answer_s``: for any answer. ``read_back_s``: how long of that records are looked for in their source.
    ``probe_s``: how long a list waits to learn whether it goes on in the lake.
    """

    answer_s: float = 60.0
    read_back_s: float = 10.0
    probe_s: float = 5.0

    @property
    def read_for(self) -> str:
        """``read_back_s`` as a command takes it."""
        return f"{self.read_back_s:g}s"


@dataclass(frozen=True)
class Dependencies:
    """What ``create_api`` is given.

    ``pipeline``: its file; ``config``: what stands in it, its paths joined to its folder. ``path``: the folder of
    ``serve.path``, for what the routes keep themselves. What is None is answered with a problem that reports it.
    ``cases``, ``desk``: labels and cases, and what people do with cases, of one file. ``dead``: what was sent again of
    dead letters, and who sends. ``audit``: the file of the audit log. ``replicas``: how far behind each of them is.
    ``open_store``: opens the pipeline's store anew, in the thread that reads it. ``body_max``: most bytes of a request.
    ``waits``: how long a request waits for what the command line does.
    """

    pipeline: Path
    config: PipelineConfig
    path: Path
    decisions: DecisionStore | None = None
    cases: CaseStore | None = None
    desk: CaseService | None = None
    events: EventSource | None = None
    figures: FigureSource | None = None
    dead: DeadLetters | None = None
    audit: Path | None = None
    replicas: Callable[[], Sequence[ReplicaLag]] | None = None
    ready: Callable[[], Awaitable[Readiness]] = always_ready
    now_ms: Callable[[], int] = wall_ms
    open_store: Callable[[PipelineConfig], Store | None] = store_of
    body_max: int = BODY_MAX
    jobs_running_max: int = 2
    waits: CommandWaits = CommandWaits()

    def store(self) -> Store:
        """The pipeline's store, to be closed by the caller. Raises ProblemError (409) where it has none."""
        found = self.open_store(self.config)
        if found is None:
            raise ProblemError(
                409,
                "no-store",
                f"pipeline {self.config.name} has no sink of kind sqlite or postgres, so that nothing stores its "
                "alerts; add one to its sinks",
            )
        return found


def required(value: Any, what: str, todo: str) -> Any:
    """``value``, or ProblemError (409) where this server was started without it."""
    if value is None:
        raise ProblemError(409, "not-served", f"this server has no {what}; {todo}")
    return value
