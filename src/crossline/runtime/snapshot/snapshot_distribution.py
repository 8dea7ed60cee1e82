"""Plan snapshots for tasks on other machines: each batch carries its snapshot, and tables are on the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from crossline.ingest.enrich.versions import Tables
from crossline.io.objects.file_stores import file_store, retry_until_available
from crossline.io.objects.location import under
from crossline.runtime.snapshot.snapshot import PlanSnapshot, StaticSnapshot

T = TypeVar("T")


class SnapshotDistribution:
    """Prepares snapshots to be sent. ``root``: the folder of tables on the store.

    ``stopping``: once it is set, no call waits for the store. The file name of a table has the digest of its content,
    so an existing file needs no check.
    """

    def __init__(self, root: str, stopping: threading.Event) -> None:
        self._root = root
        self._store = file_store(root)
        self._stopping = stopping
        self._lock = threading.Lock()  # backfills are read beside the batches
        self._there: set[str] | None = None
        self._sent: set[str] = (
            set()
        )  # of this plan snapshot and of the one before, and of backfills that were read meanwhile
        self._last: tuple[PlanSnapshot, StaticSnapshot] | None = None

    def for_batches(self, snapshot: PlanSnapshot) -> StaticSnapshot:
        """``snapshot`` for the batches from here on; tables that none of late needed go."""
        with self._lock:
            if self._last is None or self._last[0] is not snapshot:
                before, self._sent = self._sent, set()
                sent = self._made(snapshot)
                self._tried(lambda: self._drop(before | self._sent))
                self._last = (snapshot, sent)
            return self._last[1]

    def for_backfill(self, snapshot: PlanSnapshot) -> StaticSnapshot:
        """``snapshot`` to read a past by."""
        with self._lock:
            return self._made(snapshot)

    def _made(self, snapshot: PlanSnapshot) -> StaticSnapshot:
        tables: Tables = {
            name: tuple(
                replace(each, path=self._placed(each.path), overlay=each.overlay and self._placed(each.overlay))
                for each in versions
            )
            for name, versions in snapshot.tables.items()
        }
        return StaticSnapshot(replace(snapshot, tables=tables, _plans=None, _joins=None).to_json())

    def _placed(self, path: str) -> str:
        """Where on the store the content is that stands at ``path``; it is put there where it is not."""
        name = Path(path).name
        if self._there is None:
            self._there = set(self._tried(self._store.names))
        if name not in self._there:
            data = Path(path).read_bytes()
            self._tried(lambda: self._store.put(name, data))
            self._there.add(name)
        self._sent.add(name)
        return under(self._root, name)

    def _drop(self, used: set[str]) -> None:
        for name in sorted((self._there or set()) - used):
            self._store.delete(name)
            self._there = (self._there or set()) - {name}

    def _tried(self, call: Callable[[], T]) -> T:
        return retry_until_available(call, self._stopping)
