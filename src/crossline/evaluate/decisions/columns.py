"""Decisions as columns: what a sink needs of each of them, without a parser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from crossline.basics.values import I64


class DecisionHead(NamedTuple):
    """What many decisions of a batch have in common; the fields are those of a decision's JSON, None: it has none."""

    kind: str
    decision: str
    score: int | float | None
    policy_version: int
    revision: int
    revises: str | None
    because: str | None
    stream: str
    decided_at: str | None
    sink_topic: str | None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self:
        """That of a decision as a JSON value."""
        return cls(
            kind=value.get("kind", "decision"),
            decision=value["decision"],
            score=value.get("score"),
            policy_version=value["policy_version"],
            revision=value.get("revision", 0),
            revises=value.get("revises"),
            because=value.get("because"),
            stream=value["stream"],
            decided_at=value.get("decided_at"),
            sink_topic=value.get("sink_topic"),
        )


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """n decisions in the order of their records.

    ``lines``: each as JSON without an end of line. ``ids`` and ``record_ids``: bytes of UTF-8. ``head``: int64[n], the
    number of each one's head among ``heads``. ``event_ms``: int64[n], epoch milliseconds. ``values``: by number, the
    decisions that came as JSON values, whose ``event_ms`` is 0: revisions, and those that rest on an alert of their own
    record, are all among them.
    """

    lines: Sequence[bytes]
    ids: Sequence[bytes]
    record_ids: Sequence[bytes]
    head: I64
    heads: Sequence[DecisionHead]
    event_ms: I64
    values: Mapping[int, Mapping[str, Any]]

    @classmethod
    def of_values(cls, values: Sequence[Mapping[str, Any]], lines: Sequence[bytes]) -> Self:
        """Of decisions as JSON values, which are also ``lines``."""
        return cls(
            lines=lines,
            ids=text_bytes(each["decision_id"] for each in values),
            record_ids=text_bytes(each["record_id"] for each in values),
            head=np.arange(len(values)),
            heads=[DecisionHead.of(each) for each in values],
            event_ms=np.zeros(len(values), np.int64),
            values=dict(enumerate(values)),
        )

    def __len__(self) -> int:
        return len(self.lines)

    def counts(self) -> Mapping[str, int]:
        """How many there are, by what was decided."""
        found: Counter[str] = Counter()
        for head, count in zip(self.heads, np.bincount(self.head, minlength=len(self.heads)).tolist(), strict=True):
            if count:
                found[head.decision] += count
        return found


def text_bytes(texts: Iterable[Any]) -> list[bytes]:
    """Ids as bytes of UTF-8, and half of a surrogate pair as it stands."""
    return [str(each).encode(errors="surrogatepass") for each in texts]
