"""The JSON-lines sink: each alert once, as a line of a file."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant
from crossline.io.sinks.base import Delivery, for_delivery, wall_clock_ms
from crossline.io.sinks.decisions import ids_of, json_lines
from crossline.io.sinks.identity import id_bytes, identity_of
from crossline.io.sinks.once_file import Line, OnceFile
from crossline.settings import sinks as config_sinks


class JsonlSink:
    """Appends the alerts, and dead letters and decisions where configured, to files of JSON lines.

    Guarantee: each alert once, over kills, redeliveries and new checkpoints, since lines are known by their ids (see
    OnceFile). A reader that follows the file never sees a line disappear.

    Shadow alerts are written only with ``shadow``. One pipeline owns a file: one that has no ``.state`` beside it, or
    another pipeline's, is refused unless empty.
    """

    def __init__(
        self,
        path: Path,
        pipeline: str,
        dead_letters: Path | None = None,
        decisions: Path | None = None,
        *,
        shadow: bool = False,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self._alerts = OnceFile(path, pipeline, _alert_identity)
        self._dead = OnceFile(dead_letters, pipeline, _dead_identity) if dead_letters is not None else None
        self._decisions = OnceFile(decisions, pipeline, decision_identity) if decisions is not None else None
        self._files = [each for each in (self._alerts, self._dead, self._decisions) if each is not None]
        self._shadow = shadow
        self._clock_ms = clock_ms

    @classmethod
    def from_settings(cls, settings: config_sinks.JsonlSettings, pipeline: str) -> Self:
        """The files that ``settings`` name; raises UsageError where two of them are one."""
        used = {Path(settings.path): "path"}
        for name, what in (("dead_letters", "dead letters"), ("decisions", "decisions")):
            path = getattr(settings, name)
            if path is not None and used.setdefault(Path(path), name) != name:
                other = used[Path(path)]
                raise UsageError(f"{other} and {name} of a jsonl sink are both {path}; give {what} a file of their own")
        named = (settings.dead_letters, settings.decisions)
        dead, decisions = (Path(each) if each is not None else None for each in named)
        return cls(Path(settings.path), pipeline, dead, decisions)

    def open(self) -> None:
        """Create the folders. Raises PermanentError where a file belongs to another pipeline."""
        try:
            for each in self._files:
                each.open()
        except BaseException:
            self.close()
            raise

    def deliver(self, delivery: Delivery) -> None:
        """Append what is not there yet."""
        now = format_instant(self._clock_ms())
        chosen = delivery.alerts if self._shadow else for_delivery(delivery)
        self._alerts.append([{**alert, "delivered_at": now} for alert in chosen])
        if self._dead is not None:
            self._dead.append([dead_line(letter) for letter in delivery.dead])
        if self._decisions is not None:
            append_decisions(self._decisions, delivery)

    def close(self) -> None:
        """Let go of the files."""
        for each in self._files:
            each.close()


def dead_line(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as JSON values: its bytes as text (``raw``), in base 64 (``raw_base64``) where not UTF-8."""
    line = {"schema_version": 1, **{name: value for name, value in asdict(letter).items() if name != "raw"}}
    if letter.raw is None:
        return {**line, "raw": None}
    try:
        return {**line, "raw": letter.raw.decode()}
    except UnicodeDecodeError:
        return {**line, "raw_base64": base64.b64encode(letter.raw).decode()}


def dead_letter(line: Line) -> DeadLetter:
    """Inverse of ``dead_line``. Raises KeyError, TypeError or ValueError for other lines."""
    raw = base64.b64decode(line["raw_base64"]) if "raw_base64" in line else line["raw"]
    names = ("stream", "reason", "detail", "partition", "offset", "record_id")
    return DeadLetter(**{name: line[name] for name in names}, raw=raw.encode() if isinstance(raw, str) else raw)


def decision_identity(line: Line) -> bytes:
    """By what a decision is known in a file."""
    return id_bytes(line["decision_id"])


def append_decisions(file: OnceFile, delivery: Delivery) -> None:
    """Append the decisions that are not there yet to a file of ``decision_identity``; lines go as they are."""
    file.append_encoded([id_bytes(each) for each in ids_of(delivery.decisions)], json_lines(delivery.decisions))


def _alert_identity(line: Line) -> bytes:
    return id_bytes(str(line["alert_id"]))


def _dead_identity(line: Line) -> bytes:
    return identity_of(dead_letter(line))
