"""Executors that join a pipeline that runs: they get shards once they are warm.

The first task of a new executor waits until its Python is loaded, which takes seconds, and then reads the states of its
shards. A batch would wait for both. So a job that runs on the new executor alone does both first. The batches run on
the other executors meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Protocol

import pyarrow as pa

ROUNDS_MAX = 10  # of reading what batches added meanwhile; each is shorter than the one before

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
# Runs a function in as many tasks of an executor as it has cores, and waits for them.
RunOn = Callable[[str, TaskFunction], None]


class Warmup(Protocol):
    """What makes an executor warm for the batch ``batch_id``."""

    @property
    def batch_id(self) -> int:
        """The batch before which it is planned."""

    def tasks(self, judged: Collection[int], followed: Collection[int]) -> TaskFunction:
        """What the tasks of the executor do, which is to judge some parts of the shards and to follow others."""


class JoiningExecutors:
    """Which executors are warm. ``run_on``: see ``RunOn``; called in a thread for each executor that joins."""

    def __init__(self, run_on: RunOn) -> None:
        self._run_on = run_on
        self._warm: frozenset[str] | None = None
        self._joining: dict[str, threading.Thread] = {}
        self._warmup: Warmup | None = None

    @property
    def warm(self) -> frozenset[str]:
        """Those that were warm at the last call of ``warm_of``."""
        return self._warm or frozenset()

    def warm_of(
        self,
        found: Collection[str],
        warmup: Warmup | None,
        parts_of: Callable[[str], tuple[Collection[int], Collection[int]]],
    ) -> frozenset[str]:
        """Those of ``found`` that are warm; others begin to be. All of them, where none is warm.

        Those that are there at the first call count as warm: there is nothing that goes on without them. ``parts_of``:
        the parts that an executor will judge and those that it will follow. ``warmup`` None: no executor begins now.
        """
        self._warmup = warmup or self._warmup
        if self._warm is None:
            self._warm = frozenset(found)
        self._warm &= frozenset(found)
        for name in [name for name, thread in self._joining.items() if name not in found or not thread.is_alive()]:
            del self._joining[name]
            self._warm |= {name} & frozenset(found)
        if warmup is not None:
            for name in sorted(frozenset(found) - self._warm - self._joining.keys()):
                task = (name, *parts_of(name))
                self._joining[name] = threading.Thread(target=self._join, args=task, name=f"join-{name}", daemon=True)
                self._joining[name].start()
        return self._warm or frozenset(found)

    def _join(self, name: str, judged: Collection[int], followed: Collection[int]) -> None:
        """Warm it, until it lacks no more than the batch that runs.

        What goes wrong here goes wrong again, and is reported, in the batch that has its tasks there. Of an executor
        that is lost, or a session that ends, there is nothing to report.
        """
        with suppress(Exception):
            for _ in range(ROUNDS_MAX):
                warmup = self._warmup
                if warmup is None:
                    return
                self._run_on(name, warmup.tasks(judged, followed))
                if self._warmup is None or self._warmup.batch_id <= warmup.batch_id + 1:
                    return
