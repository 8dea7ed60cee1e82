"""The segments of all shards, copied from a store: those of each batch, and what merging makes of them."""

from __future__ import annotations

import queue
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore
from crossline.runtime.state_log.state_log import Segment

STATE, BACKFILLS, DECIDED = "state", "backfills/", "decided/"
LIST_EVERY = 16  # batches between two looks at all segments: merged ones come, others go
TRIES = 3  # listings, while the pipeline merges and drops

AT_ONCE = 8  # objects that are asked for at one time
T = TypeVar("T")


def at_once(ask: Callable[[str], T], names: Iterable[str]) -> list[T]:
    """``ask`` of all names, several at one time, in their order; raises what one that fails raises.

    By threads that keep no process from its end: a store that is away is waited for long.
    """
    given = list(names)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, T | None, BaseException | None]] = queue.SimpleQueue()
    for number in range(len(given)):
        waiting.put(number)

    def work() -> None:
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, ask(given[number]), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                done.put((number, None, error))

    for _ in range(min(AT_ONCE, len(given))):
        threading.Thread(target=work, name="checkpoint-copy", daemon=True).start()
    found: dict[int, T] = {}
    failed: BaseException | None = None
    for _ in given:
        number, value, error = done.get()
        failed = failed or error
        found[number] = value  # type: ignore[assignment]  # None if it failed, which is raised
    if failed is not None:
        raise failed
    return [found[number] for number in range(len(given))]


class SegmentCopies:
    """Keeps ``STATE`` in a folder like the state on a store. ``folder``: what that is called there."""

    def __init__(self, store: FileStore, folder: Path, shown: str) -> None:
        self._store, self._root, self._shown = store, folder / STATE, shown
        self.folder = STATE
        self._logs: set[str] = set()  # of shards, by folder, that have a segment for each batch
        self._here: defaultdict[str, set[Segment]] = defaultdict(set)
        self._listed_until = -1  # up to this batch shards may have logs that were not there before

    def expect_others(self, until: int) -> None:
        """Until this batch is there, other shards or depths may begin."""
        self._listed_until = max(self._listed_until, until)

    def bring(self, batch: int) -> None:
        """Have the segments of a batch that is done. Raises StateError if they are not to be had."""
        if self._logs and batch > self._listed_until and batch % LIST_EVERY:
            one = Segment(batch, batch)
            missing = [f"{log}/{one.name}" for log in sorted(self._logs) if one not in self._here[log]]
            try:
                at_once(self._get, missing)
            except FileNotFoundError:  # merged already
                pass
            else:
                return
        self.list()

    def list(self) -> None:
        """Have all segments that the store has, and no others. Raises StateError if they do not stay to be read."""
        for _ in range(TRIES):
            there = self._listing()
            missing = [f"{log}/{each.name}" for log, segments in there.items() for each in segments - self._here[log]]
            try:
                at_once(self._get, missing)
            except FileNotFoundError:  # merged or dropped meanwhile
                continue
            self._drop(there)
            self._logs = {log for log in there if not log.startswith((BACKFILLS, DECIDED))}
            return
        raise StateError(
            f"{self._shown}, {self.folder}: segments go before they can be read; the next look tries again"
        )

    def _listing(self) -> dict[str, set[Segment]]:
        there: defaultdict[str, set[Segment]] = defaultdict(set)
        for path in self._store.below(self.folder):
            log, _, name = path.rpartition("/")
            stem, _, suffix = name.partition(".")
            first, _, last = stem.partition("-")
            if suffix == "seg" and not log.startswith(DECIDED) and f"/{DECIDED}" not in log:
                there[log].add(Segment(int(first), int(last)))
        return there

    def _get(self, path: str) -> None:
        data = self._store.get(f"{self.folder}/{path}")
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.tmp")
        draft.write_bytes(data)
        draft.replace(target)
        log, _, name = path.rpartition("/")
        first, _, last = name.removesuffix(".seg").partition("-")
        self._here[log].add(Segment(int(first), int(last)))

    def _drop(self, there: dict[str, set[Segment]]) -> None:
        """What the store has no more, where something it has stands in its place, or all of its kind is gone."""
        for log in list(self._here):
            kept = there.get(log, set())
            if not kept:
                shutil.rmtree(self._root / log, ignore_errors=True)
                del self._here[log]
                continue
            begins = min(each.first for each in kept)
            for each in self._here[log] - kept:
                within = any(one.first <= each.first and each.last <= one.last for one in kept)
                if within or each.last < begins:
                    (self._root / log / each.name).unlink(missing_ok=True)
                    self._here[log].discard(each)
