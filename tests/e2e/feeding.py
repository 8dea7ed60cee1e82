"""A log that is given in pieces as processes die: some of it waits at every kill, on a machine of any speed."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import psutil

from crossline.runtime.snapshot.spark_log import committed

from .killing import SEED, named, until
from .project import Project
from .traffic import Record, lines, records

Item = TypeVar("Item")

# How many wait before a kill, and with how few left it is put off no longer: seven batches, and two.
AHEAD = 490
LEAST = 140
BATCHES_MAX = 3
POLL_S = 0.005


class Feed(Generic[Item]):
    """``log`` in pieces that ``give`` takes with the number of their first item: the last one when all kills are made.

    A kill that met a pipeline with nothing to do does not count and is made again. What is awaited is batches, never a
    time, so the outcome does not depend on how long they take.
    """

    def __init__(self, project: Project, log: Sequence[Item], give: Callable[[int, Sequence[Item]], object]) -> None:
        self._project = project
        self._log = log
        self._give = give
        self._given = 0

    def rest(self) -> None:
        """Give all that is left."""
        self.more(len(self._log) - self._given)

    def more(self, count: int) -> None:
        """Give the next ``count``."""
        first = self._given
        self._given += count
        self._give(first, self._log[first : self._given])

    def _ahead(self) -> None:
        """Have some batches wait."""
        missing = AHEAD - self._waiting()
        assert self._given + missing <= len(self._log) - AHEAD, "too few kills came under load"
        if missing > 0:
            self.more(missing)

    def _waiting(self) -> int:
        """Records that were given and are not delivered."""
        return self._given - taken(self._project)

    def strike(self, process: subprocess.Popen[bytes], draw: random.Random, kill: Callable[[], bool]) -> bool:
        """``kill`` some batches on, at any point of one; whether it did, and records were waiting."""
        self._ahead()
        enough = _batches(self._project) + draw.randint(1, BATCHES_MAX)
        until(lambda: _batches(self._project) >= enough, self._project, process)
        moment_s = time.monotonic() + draw.uniform(0, 3 * _batch_s(self._project))
        pause = threading.Event()
        while time.monotonic() < moment_s and self._waiting() > LEAST:
            pause.wait(POLL_S)
        return kill() and self._waiting() > 0

    def kill_some(
        self,
        process: subprocess.Popen[bytes],
        what: str,
        times: int,
        draw: random.Random,
        choose: Callable[[list[psutil.Process]], Iterable[psutil.Process]] | None = None,
    ) -> None:
        """SIGKILL processes whose command line holds ``what``, ``times`` times: one drawn, or those of ``choose``."""
        chosen = choose or (lambda found: [draw.choice(found)])

        def kill() -> bool:
            found = named(process, what)
            killed = [_kill(each) for each in chosen(found)] if found else []
            return any(killed)

        done = 0
        while done < times:
            done += self.strike(process, draw, kill)

    def until_done(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until all that was given is with every sink."""
        until(lambda: self._waiting() == 0 and _last_is_committed(self._project), self._project, process)


def needed(kills: int) -> int:
    """How many records are enough for that many kills: each may take what waits, and two of them may not count."""
    return (kills + 2) * (AHEAD - LEAST + 70) + 2 * AHEAD


def fed(project: Project, count: int) -> Feed[Record]:
    """``count`` records, given as files."""
    log = records(count, SEED)
    return Feed(project, log, lambda first, piece: project.give(f"{first:06d}.jsonl", lines(piece)))


def _batches(project: Project) -> int:
    """How many are in the store; one that was run again counts once."""
    return int(_of_batches(project, "count(*)"))


def taken(project: Project) -> int:
    """Their records."""
    return int(_of_batches(project, "sum(json_extract(figures, '$.records'))"))


def _batch_s(project: Project) -> float:
    """How long a batch takes on this machine once all is warm."""
    return _of_batches(project, "min(json_extract(figures, '$.detect_ms'))") / 1_000


def _last_is_committed(project: Project) -> bool:
    return committed(str(project.root / "out" / "checkpoint"), int(_of_batches(project, "max(batch_id)")))


def _of_batches(project: Project, figure: str) -> float:
    """A figure of the store's batches; 0 while there are none."""
    if not project.store.exists():
        return 0
    try:
        return float(project.rows(f"SELECT {figure} FROM batches")[0][0] or 0)  # noqa: S608 - our own
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):  # it is being made
            raise
        return 0


def _kill(process: psutil.Process) -> bool:
    """Whether it was there to be killed."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True
