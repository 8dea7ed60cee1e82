"""Alerts as lines of JSON in a file, each line once."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from crossline.connectors.base import Delivery, for_delivery, wall_clock_ms
from crossline.core import config_sinks
from crossline.core.alertjson import json_bytes
from crossline.core.errors import PermanentError, SinkError
from crossline.core.times import format_instant
from crossline.core.values import DeadLetter

STATE_SUFFIX = ".state"
_TAIL_BYTES = 65_536

Line = Mapping[str, Any]


class JsonlSink:
    """Appends the alerts, and the dead letters where asked to, to files of JSON lines.

    Guarantee: each alert once, over kills and redeliveries. Before a batch's first line, a small file beside
    (``.state``) notes the batch and the size of the file, synced and put in place at once. A batch that comes again is
    compared with what stands after that size, and only what is missing is written: a reader that follows the file never
    sees a line taken back. A line torn by a kill has no end of line, and is cut off first. Lines are synced before
    ``deliver`` returns. A batch older than the noted one means that the checkpoint was removed: from then on, batches
    are compared with the whole file.

    Shadow alerts are written only with ``shadow``. One pipeline owns a file: one that has no ``.state`` beside it, or
    another pipeline's, is refused unless empty.
    """

    def __init__(
        self,
        path: Path,
        pipeline: str,
        dead_letters: Path | None = None,
        *,
        shadow: bool = False,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._alerts = OnceFile(path, pipeline, lambda line: str(line["alert_id"]))
        self._dead = OnceFile(dead_letters, pipeline, _dead_identity) if dead_letters is not None else None
        self._shadow = shadow
        self._clock_ms = clock_ms

    @classmethod
    def from_settings(cls, settings: config_sinks.JsonlSink, pipeline: str) -> Self:
        """The files that ``settings`` name."""
        dead = Path(settings.dead_letters) if settings.dead_letters is not None else None
        return cls(Path(settings.path), pipeline, dead)

    def open(self) -> None:
        """Make the folders; raises PermanentError where a file is not this pipeline's."""
        self._alerts.open()
        if self._dead is not None:
            self._dead.open()

    def deliver(self, delivery: Delivery) -> None:
        """Append what is not there yet."""
        now = format_instant(self._clock_ms())
        chosen = delivery.alerts if self._shadow else for_delivery(delivery)
        self._alerts.append(delivery.batch_id, [{**alert, "delivered_at": now} for alert in chosen])
        if self._dead is not None:
            self._dead.append(delivery.batch_id, [dead_line(letter) for letter in delivery.dead])

    def close(self) -> None:
        """Nothing is held between deliveries."""


def dead_line(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as JSON values: its bytes as text (``raw``), in base 64 (``raw_base64``) where not UTF-8."""
    line = {"schema_version": 1, **{name: value for name, value in asdict(letter).items() if name != "raw"}}
    if letter.raw is None:
        return {**line, "raw": None}
    try:
        return {**line, "raw": letter.raw.decode()}
    except UnicodeDecodeError:
        return {**line, "raw_base64": base64.b64encode(letter.raw).decode()}


def _dead_identity(line: Line) -> str:
    return "\x1f".join(str(line[name]) for name in ("stream", "partition", "offset", "reason"))


@dataclass(frozen=True, slots=True)
class _State:
    """Which batch came last, and from where in the file its lines stand; ``whole``: compare with all of the file."""

    pipeline: str
    batch_id: int
    start: int
    whole: bool = False


class OnceFile:
    """A file of JSON lines that takes each ``identity`` once; see JsonlSink for how."""

    def __init__(self, path: Path, pipeline: str, identity: Callable[[Line], str]) -> None:
        self.path = path
        self.state_path = path.with_name(path.name + STATE_SUFFIX)
        self._pipeline = pipeline
        self._identity = identity
        self._state: _State | None = None
        self._known: set[str] = set()
        self._read_to = 0

    def open(self) -> None:
        """Take up the state; raises PermanentError where the file is another's."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._state = self._load_state()
        if self._state is None:
            if self.path.exists() and self.path.stat().st_size > 0:
                raise PermanentError(
                    f"{self.path} has lines that this pipeline did not write (there is no {self.state_path.name} "
                    "beside it); move it away, or give the sink another path"
                )
            return
        if self._state.pipeline != self._pipeline:
            raise PermanentError(
                f"{self.path} belongs to pipeline {self._state.pipeline!r}, found {self._pipeline!r}; "
                "give each pipeline a file of its own"
            )
        self._read_to = self._state.start

    def append(self, batch_id: int, lines: list[dict[str, Any]]) -> None:
        """Write those of ``lines`` that are not there yet, and sync them.

        Raises SinkError where the disk does not take them.
        """
        if not lines:
            return
        try:
            with self.path.open("ab+") as file:
                end = _cut_torn_line(file.fileno())
                self._enter(batch_id, end)
                self._read_known(end)
                fresh = self._unknown(lines)
                file.write(b"".join(json_bytes(line) + b"\n" for _, line in fresh))
                file.flush()
                os.fsync(file.fileno())
                self._known.update(identity for identity, _ in fresh)
                self._read_to = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise SinkError(f"{self.path} cannot be written now: {error}") from error

    def _unknown(self, lines: Iterable[Line]) -> list[tuple[str, Line]]:
        named = {self._identity(line): line for line in reversed(list(lines))}
        return [(identity, line) for identity, line in reversed(named.items()) if identity not in self._known]

    def _enter(self, batch_id: int, end: int) -> None:
        """Note the batch before its first line is written."""
        last = self._state
        # A start past the end: the file was moved away since.
        if last is not None and batch_id == last.batch_id and last.start <= end:
            return
        whole = last is not None and (last.whole or batch_id < last.batch_id)
        if not whole:
            self._known, self._read_to = set(), end
        elif last is not None and not last.whole:
            self._known, self._read_to = set(), 0
        self._state = _State(self._pipeline, batch_id, 0 if whole else end, whole)
        self._save_state(self._state)

    def _read_known(self, end: int) -> None:
        """Learn the lines up to ``end`` that are not learnt yet."""
        if self._read_to >= end:
            return
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            for line in file:
                self._known.add(self._identity(orjson.loads(line)))

    def _load_state(self) -> _State | None:
        try:
            return _State(**orjson.loads(self.state_path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise PermanentError(f"{self.state_path} is damaged: {error}; move it and {self.path} away") from None

    def _save_state(self, state: _State) -> None:
        draft = self.state_path.with_name(self.state_path.name + ".new")
        with draft.open("wb") as file:
            file.write(orjson.dumps(asdict(state)))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.state_path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _cut_torn_line(descriptor: int) -> int:
    """Cut off what follows the last end of line; the size that is left."""
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
    return end
