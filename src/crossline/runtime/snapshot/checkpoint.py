"""The owner of a checkpoint: one pipeline with its sources, and one process at a time.

Spark keeps offsets by the position of a source in the query, not by its name. So a pipeline with other sources, or
another pipeline, would resume at offsets of a source that it never read.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore, LocalFiles
from crossline.runtime.java.launch import session_folder
from crossline.runtime.machine.temporary_folders import LOCK, is_held

OWNER, HELD = "owner.json", "held"
RESTORED = "restored.json"  # until the first start after the checkpoint was restored from the lake
LAKE = "lake"  # the folder of the lake writer's spool
LEFT_S_MAX = 120.0  # how long a killed run's Java is waited for; a busy machine takes its time to end it
_POLL_S = 0.05
_ANEW = "or move the checkpoint folder away to start anew (see operations.md)"


@dataclass(frozen=True, slots=True)
class SourceMark:
    """The identity of a source: its stream, its kind, and what must stay the same for its offsets to count.

    ``reads``: by name; a list may grow, and loses nothing.
    """

    stream: str
    kind: str
    reads: Mapping[str, Any] = field(default_factory=dict)


class Checkpoint:
    """The hold on a checkpoint folder; from ``claim`` to ``release``, or to the end of the process.

    ``shown``: what messages call it. ``lost``: another run took it over; then ``on_lost`` is called.
    """

    def __init__(self, folder: Path, descriptor: int, shown: str | None = None) -> None:
        self.folder = folder
        self.shown = shown or str(folder)
        self.lost: StateError | None = None
        self.on_lost: Callable[[], None] | None = None
        self._end = weakref.finalize(self, os.close, descriptor)
        self._descriptor = descriptor

    @property
    def state_root(self) -> str:
        """Where shards log their state."""
        return f"{self.folder}/state"

    def schemas(self, stream: str) -> str:
        """Where tasks cache the registry's answers on a stream's schemas."""
        return f"{self.folder}/sources/{stream}/schemas"

    def sink_store(self, name: str) -> FileStore:
        """Where what waits for a sink lies."""
        return LocalFiles(self.folder / "behind" / name)

    @property
    def lake_store(self) -> FileStore:
        """Where what batches gave lies until the lake has it."""
        return LocalFiles(self.folder / LAKE)

    def keep_feed(self, batch: int, data: bytes) -> None:
        """Have what a batch gave be where the checkpoint is: the feed lies in its folder, which is there."""

    def sinks_waiting(self) -> list[str]:
        """The names of those."""
        return LocalFiles(self.folder / "behind").folders()

    def keep_log(self, path: Path) -> None:
        """Have the rule log at ``path`` be where the checkpoint is: it lies on this machine, as the checkpoint does."""

    def publish(self, stop: threading.Event) -> None:  # noqa: ARG002 - a store is waited for
        """See that what was noted is in the folder of this run. Raises StateError where that is not there any more."""
        missing = self.missing()
        if missing is not None:
            raise missing

    def missing(self) -> StateError | None:
        """The error of a run whose folder was moved away or deleted; None while it is in its place."""
        if self._released:
            return None
        try:
            # The open file keeps its number: no other file can have it.
            if os.path.samestat((self.folder / HELD).stat(), os.fstat(self._descriptor)):
                return None
            found = "another folder"
        except (FileNotFoundError, NotADirectoryError):
            found = "no checkpoint"
        except OSError:  # of the disk: reported by what meets it
            return None
        return StateError(
            f"the checkpoint {self.shown} was moved away or deleted while this run used it: found {found} there, "
            "expected the one that the run began with. Put that back, in place of what may be there by now, and start "
            f"again, {_ANEW}"
        )

    @property
    def _released(self) -> bool:
        return not self._end.alive

    def detach(self) -> int:
        """The descriptor that holds it, for another who closes it."""
        self._end.detach()
        return self._descriptor

    def release(self) -> None:
        """Let others have it; safe to call twice."""
        if self._end.alive:
            os.ftruncate(self._descriptor, 0)
            self._end()

    def owned_by(self, pipeline: str, sources: Sequence[SourceMark]) -> list[str]:
        """Note the owner at the first start; at others, the streams in the order that Spark's offsets have.

        A checkpoint of a version that noted no owner becomes this pipeline's. Raises StateError where it is another's,
        or has read other sources.
        """
        path = self.folder / OWNER
        known = _read(path)
        if known is None:
            self._check_count(sources)
            order = [mark.stream for mark in sources]
        else:
            order = self._checked(known, pipeline, sources)
        by_stream = {mark.stream: mark for mark in sources}
        owner = {"schema_version": 1, "pipeline": pipeline, "sources": [asdict(by_stream[name]) for name in order]}
        if owner != known:
            temporary = path.with_suffix(".tmp")
            temporary.write_bytes(orjson.dumps(owner, option=orjson.OPT_INDENT_2))
            temporary.replace(path)
        return order

    def _checked(self, known: Mapping[str, Any], pipeline: str, sources: Sequence[SourceMark]) -> list[str]:
        if known["pipeline"] != pipeline:
            raise StateError(
                f"{self.shown} is the checkpoint of pipeline {known['pipeline']}, found {pipeline}: give {pipeline} "
                f"one of its own (engine.checkpoint), {_ANEW}"
            )
        before = {each["stream"]: each for each in known["sources"]}
        now = {mark.stream: mark for mark in sources}
        if before.keys() != now.keys():
            raise StateError(
                f"{self.shown} has read the streams {', '.join(before)}, found {', '.join(now)}: the sources of a "
                f"checkpoint stay; put them back, {_ANEW}"
            )
        for stream, mark in now.items():
            self._check_same(before[stream], mark)
        return list(before)

    def _check_same(self, before: Mapping[str, Any], mark: SourceMark) -> None:
        for name, value, found in [
            ("a source of kind", before["kind"], mark.kind),
            *((name, value, mark.reads.get(name)) for name, value in before["reads"].items()),
        ]:
            if found != value and not (isinstance(value, list) and set(value) <= set(found or ())):
                raise StateError(
                    f"{self.shown} has read stream {mark.stream} from {name} {_text(value)}, found {_text(found)}: "
                    f"put it back, {_ANEW}"
                )

    def _check_count(self, sources: Sequence[SourceMark]) -> None:
        """Of a checkpoint without an owner, Spark's own offsets say how many sources it had."""
        offsets = self.folder / "spark" / "offsets"
        batches = [int(path.name) for path in offsets.iterdir() if path.name.isdigit()] if offsets.is_dir() else []
        if not batches:
            return
        # A version, the batch's metadata, then one line a source.
        count = len((offsets / str(max(batches))).read_text(encoding="utf-8").splitlines()) - 2
        if count != len(sources):
            raise StateError(
                f"{self.shown} has read {count} sources, found {len(sources)}: the sources of a checkpoint stay; put "
                f"them back, {_ANEW}"
            )


def claim(folder: str) -> Checkpoint:
    """Take hold of the checkpoint at ``folder``, made where it is not there.

    Waits for what a killed run left at work on it. Raises StateError where another process has it.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path / HELD, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(descriptor, path)
        _await_left(descriptor, path)
        about = {"process": os.getpid(), "host": socket.gethostname(), "temporary": str(session_folder() or "")}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, orjson.dumps(about), 0)
    except BaseException:
        os.close(descriptor)
        raise
    return Checkpoint(path, descriptor)


def _take(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _about(descriptor)
        who = f" (process {holder['process']} on {holder['host']})" if holder else ""
        raise StateError(
            f"the checkpoint {path} is held by another run of this pipeline{who}: stop that one first, or give this "
            "one a name and an engine.checkpoint of its own"
        ) from None
    except OSError as error:
        raise StateError(
            f"the checkpoint {path} cannot be locked: {error.strerror}; its file system must know locks (flock)"
        ) from error


def _await_left(descriptor: int, path: Path) -> None:
    """A run that was killed leaves its Java behind for a moment, which may still write into the checkpoint."""
    left = _about(descriptor).get("temporary")
    if not left or Path(left) == session_folder():
        return
    deadline_s = time.monotonic() + LEFT_S_MAX
    while is_held(Path(left) / LOCK):
        if time.monotonic() > deadline_s:
            raise StateError(
                f"the checkpoint {path} is still in use by what a killed run left behind, which holds {left}: end its "
                "Java, and start again"
            )
        time.sleep(_POLL_S)


def _about(descriptor: int) -> dict[str, Any]:
    """What the holder wrote of itself; nothing after a clean end."""
    raw = os.pread(descriptor, 4096, 0)
    try:
        return dict(orjson.loads(raw)) if raw else {}
    except orjson.JSONDecodeError:
        return {}  # a kill cut it off


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        known = orjson.loads(path.read_bytes())
        known["pipeline"], [(each["stream"], each["kind"], each["reads"]) for each in known["sources"]]
    except (ValueError, KeyError, TypeError):
        raise StateError(
            f"{path} is damaged: it records the owner of the checkpoint; restore it from a copy, {_ANEW}"
        ) from None
    return dict(known)


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
