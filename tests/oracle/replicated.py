"""A pipeline on disk, batch by batch, without Spark: what replicas follow, and what its own stages decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.values import Records
from crossline.ingest.decode import decode_lines, decode_values
from crossline.ingest.route.partitioner import Chunk
from crossline.rules.policy.policy import Deciding, Policy
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile
from crossline.runtime.stages.outcome import collect_outcome
from crossline.runtime.stages.shard_judge import ShardJudge, part_rows
from crossline.runtime.stages.stages import OUT, parts_of
from crossline.runtime.state_log import cache as caching
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.stopwatch import Stopwatch

Decision = dict[str, Any]


@dataclass(frozen=True)
class OfTopic:
    """What a batch has of a partition, which is ``log``; a value None is a tombstone. ``ingest_ms``: the broker's."""

    stream: str
    log: str
    values: Sequence[bytes | None]
    ingest_ms: Sequence[int]


@dataclass
class Pipeline:
    """Batches of lines, each a chunk of the log of its stream, judged by what judges them in a pipeline.

    ``at``: where the log of each stream ends, in bytes.
    """

    folder: Path
    snapshot: PlanSnapshot
    batches: int = 0
    chunks: int = 0
    at: dict[str, int] = field(default_factory=dict)
    kind: str = "api"

    def __post_init__(self) -> None:
        self.cache = ShardCache(str(self.folder / "state"), per_query=False, held_max=64)
        self.file = SnapshotFile(str(self.folder / "snapshot.json"))
        owner = {"pipeline": "p", "sources": [{"stream": name, "kind": self.kind} for name in self.snapshot.streams]}
        (self.folder / "owner.json").write_bytes(orjson.dumps(owner))
        self.publish(self.snapshot)

    def publish(self, snapshot: PlanSnapshot) -> None:
        """Judge by ``snapshot`` from now on."""
        self.file.replace(snapshot)
        self.snapshot = self.file.current()

    def rules(self, rules: Any) -> None:
        """Other rules, whose state stores go on from those of before."""
        self.publish(self.snapshot.with_rules(rules, self.snapshot.lists))

    def restart(self) -> None:
        """As a process starts on what is on disk."""
        caching._CACHE.clear()

    def batch(
        self, pieces: Sequence[tuple[str, Sequence[bytes]]], *, of_topics: Sequence[OfTopic] = (), commit: bool = True
    ) -> list[Decision]:
        """Judge lines of streams as the next batch, each piece a chunk; the decisions on its records, in order."""
        given: dict[tuple[int, int], list[bytes]] = {}
        rows = []
        for stream, lines in pieces:
            start, data = self.at.get(stream, 0), b"".join(line + b"\n" for line in lines)
            self.at[stream] = start + len(data)
            decoded = decode_lines(self.snapshot.decoder(stream), data, stream, start)
            self._take(given, decoded.records, Chunk(stream, self.chunks, stream))
        for piece in of_topics:
            start = self.at.get(piece.log, 0)
            self.at[piece.log] = start + len(piece.values)
            offsets = np.arange(start, self.at[piece.log], dtype=np.int64)
            values, came = pa.array(piece.values, pa.binary()), np.array(piece.ingest_ms, np.int64)
            decoded = decode_values(self.snapshot.decoder(piece.stream), values, piece.log, offsets, came)
            self._take(given, decoded.records, Chunk(piece.log, self.chunks, piece.log))
        depths = [*range(1, self.snapshot.depth + 1), self.snapshot.depth + 1]
        for depth in depths:
            at = depth if depth <= self.snapshot.depth else 0
            if not at and self.snapshot.revises_ms is None:
                work = ShardJudge(self.file, None, "q", self.batches, 0)
            else:
                work = ShardJudge(self.file, self.cache, "q", self.batches, at)
            for shard in range(self.snapshot.shards):
                sent = work.shard(shard, given.get((depth, shard), []), Stopwatch())
                rows += [(kind, body) for stage, _, kind, body in sent if stage == OUT]
                self._give(given, [each for each in sent if each[0] != OUT])
        self._write("offsets", "\n".join(["v1", '{"batchTimestampMs": 0}', *(f'{{"chunk":{self.chunks}}}',)]))
        if commit:
            self.commit()
        return [dict(each) for each in collect_outcome(rows, None).decisions]

    def _take(self, given: dict[tuple[int, int], list[bytes]], records: Records, chunk: Chunk) -> None:
        self._give(given, part_rows(parts_of(self.snapshot, records, chunk)))
        self.chunks += 1

    @staticmethod
    def _give(given: dict[tuple[int, int], list[bytes]], sent: Any) -> None:
        for stage, shard, _, body in sent:
            given.setdefault((stage, shard), []).append(body)

    def commit(self) -> None:
        """Spark is done with the batch."""
        self._write("commits", "v1\n{}")
        self.batches += 1

    def _write(self, log: str, text: str) -> None:
        path = self.folder / "spark" / log / str(self.batches)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.tmp")
        aside.write_text(text)
        aside.rename(path)


def with_policy(snapshot: PlanSnapshot, policy: dict[str, Any] | None = None) -> PlanSnapshot:
    """``snapshot`` with a policy, and a decision on each record."""
    made = Policy.model_validate(policy or {"schema_version": 1, "version": 1})
    return replace(snapshot, deciding=Deciding(made, every=True))


def comparable(decision: Any) -> Any:
    """What has to be the same of two decisions."""
    return (
        None
        if decision is None
        else {k: v for k, v in orjson.loads(orjson.dumps(decision)).items() if k != "decided_at"}
    )
