"""The sink that reports each batch to the decision API: what it gave, and up to where records are in it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson

from crossline.basics.errors import SinkError, UsageError
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.decisions.decision import RulesInForce
from crossline.io.feed.files import Ends, FeedFolder, batch_path, write_batch
from crossline.io.files.listing import ChunkList
from crossline.io.objects.file_stores import StoreUnavailableError
from crossline.io.sinks.base import Delivery, for_delivery, wall_clock_ms
from crossline.io.sinks.decisions import json_lines
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.snapshot.spark_log import offsets_of

FEED = "feed"  # the folder, in the checkpoint
BATCHES_MAX, BYTES_MAX = 16_384, 256 << 20
SPANS_MAX = 256  # of ingest time that are distinguished in one file, the last ones
LOGS_MAX = 64  # files of a source that are named in one file, the last ones
_CHUNKS_BACK = 20_000  # that are looked at for those after a start
_REVISION = b'"kind":"revision"'


class SourceEnds:
    """Where batches end in each source of a checkpoint, by stream and log.

    Of topics these are Spark's own offsets; of files the ends of chunks, by the files' names without their folders.
    ``streams``: in the order of Spark's offsets.
    """

    def __init__(self, checkpoint: str, streams: Sequence[str]) -> None:
        self._checkpoint = checkpoint
        self._streams = streams
        self._lists = {stream: _FileEnds(ChunkList(f"{checkpoint}/sources/{stream}")) for stream in streams}

    def __call__(self, batch: int) -> tuple[Ends, Ends]:
        """Where the records of ``batch`` begin and end."""
        before = offsets_of(self._checkpoint, batch - 1) if batch else [None] * len(self._streams)
        after = offsets_of(self._checkpoint, batch)
        begins, ends = dict[str, Mapping[str, int]](), dict[str, Mapping[str, int]]()
        for stream, begin, end in zip(self._streams, before, after, strict=True):
            if "chunk" in (end or {}):
                start, stop = (begin or {"chunk": 0})["chunk"], (end or {})["chunk"]
                begins[stream], ends[stream] = self._lists[stream].between(start, stop)
            else:
                begins[stream], ends[stream] = dict(_partitions(begin)), dict(_partitions(end))
        return begins, ends


def _partitions(offsets: Mapping[str, Any] | None) -> Iterator[tuple[str, int]]:
    for topic, partitions in (offsets or {}).items():
        for number, offset in partitions.items():
            yield f"{topic}-{number}", int(offset)


class _FileEnds:
    """Up to which byte each file was read, after so many chunks."""

    def __init__(self, chunks: ChunkList) -> None:
        self._list = chunks
        self._ends: dict[str, int] = {}
        self._at = 0

    def between(self, start: int, stop: int) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Where the chunks from ``start`` up to ``stop`` begin and end; of the last files that were read."""
        self._list.refresh()
        if start < self._at or self._at == 0:  # a batch that is run again, or the first of this run
            self._ends, self._at = {}, max(0, start - _CHUNKS_BACK)
        self._take(start)
        begins = dict(self._ends)
        self._take(stop)
        self._list.forget(start - _CHUNKS_BACK)
        return begins, dict(self._ends)

    def _take(self, upto: int) -> None:
        for chunk in self._list.chunks(self._at, upto):
            name = log_name(chunk.place)
            self._ends.pop(name, None)  # the one that was read last stands last
            self._ends[name] = chunk.end
        self._at = max(self._at, upto)
        while len(self._ends) > LOGS_MAX:
            self._ends.pop(next(iter(self._ends)))


def log_name(partition: str) -> str:
    """What a feed calls the log of a record: a file's name without its folder, or topic-partition."""
    return posixpath.basename(partition)


class InForce:
    """By what records are decided about where no rule holds, as JSON values: by stream, from which ingest time on.

    ``rules``: the digest of the rules in force. ``on_time_ms``: up to which lateness a record is decided about.
    ``snapshot`` gives the plan snapshot in force; it is set once there is a pipeline.
    """

    def __init__(self) -> None:
        self.snapshot: Callable[[], PlanSnapshot]
        self._known: tuple[PlanSnapshot, dict[str, Any]] | None = None

    def __call__(self) -> Mapping[str, Any]:
        """Of the rules that the batch was judged by."""
        snapshot = self.snapshot()
        if self._known is None or self._known[0] is not snapshot:
            self._known = (snapshot, _in_force(snapshot))
        return self._known[1]


def _in_force(snapshot: PlanSnapshot) -> dict[str, Any]:
    delay_ms = snapshot.defaults.watermark_delay_ms
    lateness = {plan.stream: plan.lateness for plan in snapshot.plans() if plan.stream in snapshot.streams}
    rules, on_time = dict[str, Any](), dict[str, Any]()
    for stream in snapshot.streams:
        in_force = RulesInForce(snapshot.rules, stream)
        rules[stream] = [[edge, in_force.digest(edge)] for edge in in_force.edges[-SPANS_MAX:]]
        if stream in lateness:
            spans = zip(lateness[stream].from_ms, lateness[stream].allowed_ms, strict=True)
            on_time[stream] = [[from_ms, min(ms, delay_ms)] for from_ms, ms in spans][-SPANS_MAX:]
        else:
            on_time[stream] = [[in_force.edges[0], delay_ms]]
    version = None if snapshot.deciding is None else snapshot.deciding.policy.version
    return {"policy_version": version, "rules": rules, "on_time_ms": on_time}


class FeedSink:
    """Writes what each batch gave into ``folder``, a file a batch, for the decision API (``serve.feed`` reads it).

    Guarantee: a batch's file is there, whole, before Spark commits the batch; one that is run again writes it again,
    with the same meaning. The oldest files go, beyond ``batches_max`` and ``bytes_max``: a reader that is further
    behind gets an error. ``copy`` copies a file to the checkpoint's store, if it is not on this machine. Shadow alerts,
    and those of rules that only feed others, are left out.
    """

    def __init__(
        self,
        folder: Path,
        ends: Callable[[int], tuple[Ends, Ends]],
        in_force: Callable[[], Mapping[str, Any]],
        *,
        batches_max: int = BATCHES_MAX,
        bytes_max: int = BYTES_MAX,
        clock_ms: Callable[[], int] = wall_clock_ms,
        copy: Callable[[int, bytes], None] = lambda _, __: None,
    ) -> None:
        self._folder = folder
        self._copy = copy
        self._ends = ends
        self._in_force = in_force
        self._kept = FeedFolder(folder, batches_max, bytes_max)
        self._clock_ms = clock_ms

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files: ``serve:`` adds it."""
        raise UsageError("a feed is no sink of its own; it is written where the pipeline has `serve:`")

    def open(self) -> None:
        """Make the folder. Raises SinkError where the disk does not let it."""
        try:
            self._kept.open()
        except OSError as error:
            raise SinkError(f"{self._folder}: what batches gave cannot be kept there: {error.strerror}") from error

    def deliver(self, delivery: Delivery) -> None:
        """Write the file of the batch."""
        try:
            begins, ends = self._ends(delivery.batch_id)
            now_ms = self._clock_ms()
            sections = _sections(delivery, now_ms)
            head = {
                "batch": delivery.batch_id,
                "checkpoint": delivery.checkpoint,
                "planned_ms": delivery.began_ms,
                "delivered_ms": now_ms,
                "begins": begins,
                "ends": ends,
                **self._in_force(),
                "counts": _counts(delivery, sections),
            }
            self._kept.add(delivery.batch_id, write_batch(self._folder, head, sections))
            self._copy(delivery.batch_id, batch_path(self._folder, delivery.batch_id).read_bytes())
        except StoreUnavailableError as error:
            raise SinkError(
                f"what batch {delivery.batch_id} gave cannot be kept for the decision API: {error}"
            ) from error
        except OSError as error:
            raise SinkError(
                f"{self._folder}: what batch {delivery.batch_id} gave cannot be kept for the decision API: "
                f"{error.strerror or error}; make room, and the run goes on"
            ) from error

    def close(self) -> None:
        """Nothing is held."""


def _sections(delivery: Delivery, now_ms: int) -> dict[str, list[bytes]]:
    now = format_instant(now_ms)
    dead = [
        {
            "stream": each.stream,
            "log": log_name(each.partition),
            "at": each.offset,
            "record_id": each.record_id,
            "reason": each.reason,
            "detail": each.detail,
        }
        for each in delivery.dead
    ]
    late = [
        {
            "stream": each.stream,
            "log": log_name(each.partition),
            "at": each.offset,
            "record_id": each.record_id,
            "reason": "late",
            "detail": f"{each.lateness_ms} ms late: every rule that could judge it takes less",
        }
        for each in delivery.late
    ]
    return {
        "decisions": list(json_lines(delivery.decisions)),
        "alerts": [json_bytes({**alert, "delivered_at": now}) for alert in for_delivery(delivery)],
        "dead": [orjson.dumps(each) for each in dead],
        "late": [orjson.dumps(each) for each in late],
    }


def _counts(delivery: Delivery, sections: Mapping[str, Sequence[bytes]]) -> dict[str, int]:
    """What is in the file, by kind, and how many records the batch judged."""
    revisions = sum(_REVISION in line for line in sections["decisions"])
    corrections = sum(alert["kind"] == "correction" for alert in for_delivery(delivery))
    return {
        "records": int(delivery.figures.get("records", 0)),
        "decisions": len(sections["decisions"]) - revisions,
        "revisions": revisions,
        "alerts": len(sections["alerts"]) - corrections,
        "corrections": corrections,
        "dead": len(delivery.dead),
        "late": len(delivery.late),
    }
