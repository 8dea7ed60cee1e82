"""What sinks get: the output of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.basics.deadletter import DeadLetter


@dataclass(frozen=True, slots=True)
class LateRecord:
    """A record too late to be judged: its position, event time and ingest time.

    ``raw`` is None where only the source has its bytes.
    """

    stream: str
    record_id: str
    event_ms: int
    ingest_ms: int
    lateness_ms: int
    partition: str
    offset: int
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """The output of one batch of ``pipeline``.

    ``alerts`` are as ``alerts_of`` made them, ``delivered_at`` still None: each sink stamps the instant of its own
    delivery. ``positions``: (partition, offset) of the record at which each alert fired, or none at all. ``figures``
    describe the batch (JSON values). ``rule_events`` are what the rule log recorded since the last batch; equal events
    are one event. ``decisions`` are complete JSON values, at most one for each record. ``feature_rows``: feature rows,
    where the pipeline writes them to a table. Within one ``checkpoint`` ("" where there is none) a ``batch_id`` stands
    for the same records at every attempt. It was planned at ``began_ms``, unless an older checkpoint was restored.
    """

    pipeline: str
    batch_id: int
    alerts: Sequence[Mapping[str, Any]] = ()
    dead: Sequence[DeadLetter] = ()
    late: Sequence[LateRecord] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    rule_events: Sequence[Mapping[str, Any]] = ()
    positions: Sequence[tuple[str, int]] = ()
    decisions: Sequence[Mapping[str, Any]] = ()
    feature_rows: Sequence[bytes] = ()
    checkpoint: str = ""
    began_ms: int = 0
