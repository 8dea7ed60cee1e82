"""A pipeline's checkpoint without Spark: files with records, the lists of their chunks, spooled batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crossline.basics.streams.schema import StreamSpec
from crossline.io.files.log import FileChunks
from crossline.io.objects.file_stores import LocalFiles
from crossline.io.outbox.batch_spool import CHUNKS, BatchSpool, SpooledBatch
from crossline.io.sinks.base import Delivery
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.lake.writing.writer import LakeWriter
from crossline.lake.writing.writer_setup import writer_of
from crossline.runtime.snapshot.checkpoint import LAKE
from crossline.settings.config import PipelineConfig, in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: pay-eu
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields:
      id: string
      account_id: string
      at: integer
      cents: integer
      share: number?
      ok: boolean?
      seen: timestamp?
      tags: "[string]?"
      place: {city: string?, spot: {lat: number?, lon: number?}}
sources:
  payments: {kind: files, path: in/*.jsonl}
rules: {kind: directory, path: rules/}
sinks: [{kind: console}]
lake: {commit_bytes: 1048576}
"""
CHECKPOINT = "checkpoint-1"
START_MS = 1_767_225_600_000  # 2026-01-01
DAY_MS = 86_400_000


@dataclass(slots=True)
class SpooledPipeline:
    """A pipeline whose batches are made by hand.

    ``given``: the records of each batch. ``spec``: another declaration of the stream than that of ``text``.
    """

    root: Path
    text: str = PIPELINE
    spec: StreamSpec | None = None
    stream: str = "payments"
    checkpoint: str = CHECKPOINT
    given: list[list[dict[str, Any]]] = field(default_factory=list)
    _log: FileChunks | None = None
    _chunks: int = 0

    @property
    def config(self) -> PipelineConfig:
        config = load_pipeline(self.text, "pipeline.yaml", lambda name: (self.root / name).read_text())
        mine = in_folder(config, str(self.root))
        return mine if self.spec is None else replace(mine, streams={self.stream: self.spec})

    @property
    def folder(self) -> Path:
        return self.root / "out" / "checkpoint"

    @property
    def spool(self) -> BatchSpool:
        return BatchSpool(LocalFiles(self.folder / LAKE))

    def batch(self, records: Sequence[dict[str, Any]], **delivery: Any) -> int:
        """Spool and commit the next batch, with ``records`` as its only file; its number."""
        number = len(self.given)
        path = self.root / "in" / f"{number:04d}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(each) + "\n" for each in records))
        if self._log is None:
            pattern = str(self.root / "in" / "*.jsonl")
            self._log = FileChunks([pattern], str(self.folder / "sources" / self.stream), 1 << 20)
        last = self._log.poll(START_MS + 10**12)
        ranges = {self.stream: {CHUNKS: (self._chunks, last)}} if last > self._chunks else {}
        self._chunks = last
        self.given.append(list(records))
        began_ms = START_MS + number
        made = Delivery("pay-eu", number, checkpoint=self.checkpoint, began_ms=began_ms, **delivery)
        self.spool.put(SpooledBatch(made, ranges, began_ms + 100))
        commits = self.folder / "spark" / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        (commits / str(number)).touch()
        return number

    @contextmanager
    def writer(self) -> Iterator[LakeWriter]:
        with writer_of(self.config) as writer:
            yield writer

    def write_all(self) -> None:
        with self.writer() as writer:
            while writer.write_next() is not None:
                pass

    def reader(self) -> LakeReader:
        return LakeReader(open_lake(self.config), self.config)


def payment(number: int, at_ms: int = START_MS, **fields: Any) -> dict[str, Any]:
    """A record."""
    return {"id": f"p{number:05d}", "account_id": f"a{number % 3}", "at": at_ms, "cents": number * 10, **fields}


def alert(number: int, at: str = "2026-01-01T00:00:01.000Z", **fields: Any) -> dict[str, Any]:
    """An alert, as pipelines deliver it."""
    return {
        "schema_version": 1,
        "alert_id": f"alert-{number}",
        "kind": "alert",
        "rule_id": "burst",
        "rule_version": 1,
        "rule_type": "velocity",
        "severity": "high",
        "score": 40,
        "action": None,
        "key": {"account_id": f"a{number % 3}"},
        "stream": "payments",
        "record_id": f"p{number:05d}",
        "event_time": at,
        "ingest_time": at,
        "value": 10,
        "operator": ">=",
        "threshold": 10,
        "window_start": at,
        "window_end": at,
        "evidence": {"count": 1, "record_ids": [f"p{number:05d}"]},
        "message": "many payments",
        "corrects": None,
        "detected_at": at,
        "delivered_at": None,
        **fields,
    }
