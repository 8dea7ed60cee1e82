"""What replicas are asked and answer, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from crossline.serve.decisions.values import AsOf, Degraded, NotJudgedError, RecordVerdict
from crossline.serve.replica.overlay import JudgedRecord
from crossline.serve.replica.pending_records import PendingRecord
from crossline.serve.replica.setup import PAUSE_MS


class ReplicationLag(NamedTuple):
    """How far replicas are behind: ``ms``, the ``batch`` that is judged on (-1: none yet), whether one is ``ready``."""

    ms: int
    batch: int
    ready: bool


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    """``behind_max_ms``: how old the state may be while batches go on. ``call_max_s``: after it a call is given up.

    ``ready_max_s``: how long a request waits for a missing replica; where there was none for so long, none
    waits. ``laid_max``: records laid over at once. ``pause_ms``: at least between two forks of a follower.
    ``unseen_ms``: the age of the data in the checkpoint's folder, where that is a copy of one on a store.
    """

    behind_max_ms: int = 1_000
    call_max_s: float = 1.0
    ready_max_s: float = 2.0
    laid_max: int = 50_000
    pause_ms: int = PAUSE_MS
    unseen_ms: Callable[[], int] = lambda: 0


def or_raise(found: list[RecordVerdict | NotJudgedError]) -> list[RecordVerdict | NotJudgedError]:
    """``found``; raises where no replica judged any of it."""
    for each in found:
        if not isinstance(each, NotJudgedError) or each.part != "replica":
            return found
    if found and isinstance(found[0], NotJudgedError):
        raise found[0]
    return found


def together(entries: list[PendingRecord]) -> list[PendingRecord]:
    """The first of ``entries`` that are judged in one call: one that was part of a call that failed, by itself."""
    if entries and entries[0].failures:
        return entries[:1]
    return [*takewhile(lambda each: not each.failures, entries)]


def verdict_of(judged: JudgedRecord, digest: str, as_of: AsOf) -> RecordVerdict | NotJudgedError:
    """What was ``judged`` on the state ``as_of``, by the basis of this digest; or why nothing was decided."""
    if judged.decision is None:
        return NotJudgedError("record", judged.why)
    degraded = tuple(Degraded(part, why) for part, why in judged.degraded)
    return RecordVerdict(judged.decision, judged.figures, judged.evidence, as_of, digest, degraded)
