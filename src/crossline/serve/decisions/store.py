"""What the API answered, as its routes read it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol


class DecisionStore(Protocol):
    """What this API answered, by id and by record. Called in a thread, from several at once."""

    def decision(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision as it was answered; None where it was never given."""
        ...

    def decisions(
        self, record_id: str, stream: str | None, after: str | None, limit: int
    ) -> Sequence[Mapping[str, Any]]:
        """The decisions on a record (of ``stream``, None: of any), in order of their ids, from after an id on."""
        ...

    def revisions(self, decision_id: str) -> Sequence[Mapping[str, Any]]:
        """What the stream decided otherwise since, in the order in which it did."""
        ...

    def receipt(self, decision_id: str) -> Mapping[str, Any] | None:
        """The decision's receipt; None where it has none."""
        ...

    def differing(self, since_ms: int, most: int) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Answers that the stream decided otherwise, each with that decision, the latest first."""
        ...

    def figures(self, records: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Mapping[str, Any]]:
        """Of records (stream and id) that were answered by a peek, the answers' figures by the name of the rule."""
        ...
