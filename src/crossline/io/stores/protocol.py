"""The interface of stores for readers, whatever the database. ``factory`` opens one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class AlertFilter:
    """A filter of alerts; None or empty is all of them. In event time: ``since_ms`` <= time < ``until_ms``.

    ``key``: field -> value as text; the alert's key must have all of them. ``corrects``: corrections of the alert with
    this id. ``batches``: a pipeline, its first and its last batch. ``version``: the version of the rule.
    """

    rule_id: str | None = None
    kind: str | None = None
    severity: str | None = None
    key: Mapping[str, str] = field(default_factory=dict)
    since_ms: int | None = None
    until_ms: int | None = None
    corrects: str | None = None
    batches: tuple[str, int, int] | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """A filter of decisions and revisions; None is all of them. Times as in ``AlertFilter``.

    ``but_allowed``: without decisions to allow. ``batches`` as in ``AlertFilter``.
    """

    decision: str | None = None
    stream: str | None = None
    record_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    but_allowed: bool = False
    batches: tuple[str, int, int] | None = None


# Where an alert or a decision stands in the order of a store: its event time as text, and its number there.
Mark = tuple[str, int]


@dataclass(frozen=True, slots=True)
class StoredAlert:
    """An alert of ``pipeline`` as delivered. ``position``: partition and offset of the record at which it fired.

    None where that was not noted.
    """

    alert: dict[str, Any]
    pipeline: str
    position: tuple[str, int] | None


class Store(Protocol):
    """The deliveries of pipelines, in order. It may be read while a pipeline writes.

    ``name`` is its location, without secrets; ``files``: what must not be written over while it is read.
    """

    name: str
    files: tuple[Path, ...]

    def alerts(
        self, which: AlertFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Alerts as delivered, in order of event time, the first ``limit`` in that order."""
        ...

    def count(self, which: AlertFilter) -> int:
        """How many alerts there are."""
        ...

    def find(self, prefix: str, limit: int = 10) -> list[StoredAlert]:
        """The alerts whose id starts with ``prefix``, at most ``limit``."""
        ...

    def decisions(
        self, which: DecisionFilter, limit: int | None = None, *, newest_first: bool = True
    ) -> Iterator[dict[str, Any]]:
        """Decisions and revisions as delivered, in order of event time, the first ``limit`` in that order."""
        ...

    def alerts_before(self, which: AlertFilter, before: Mark | None, limit: int) -> list[tuple[Mark, dict[str, Any]]]:
        """The first ``limit`` alerts before a mark, the latest first; None: from the latest on.

        Later deliveries neither repeat nor hide alerts between two calls.
        """
        ...

    def decisions_before(
        self, which: DecisionFilter, before: Mark | None, limit: int
    ) -> list[tuple[Mark, dict[str, Any]]]:
        """As ``alerts_before``, of decisions and revisions."""
        ...

    def count_decisions(self, which: DecisionFilter) -> int:
        """How many decisions there are, revisions among them."""
        ...

    def find_decisions(self, name: str, limit: int = 10) -> list[dict[str, Any]]:
        """Decisions whose id starts with ``name``, and on the record with this id; at most ``limit``."""
        ...

    def rule_body(self, pipeline: str, rule_id: str, version: int) -> dict[str, Any] | None:
        """A version of a rule as ``pipeline`` applied it; None where the store does not have it."""
        ...

    def refused(self, pipeline: str, stream: str, record_ids: Collection[str]) -> set[tuple[str, int]]:
        """Partitions and offsets of the dead letters and late records of ``stream`` with these ids."""
        ...

    def rule_ids(self) -> list[str]:
        """The rules that have alerts here."""
        ...

    def batch_figures(self, pipeline: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """When the last batches of ``pipeline`` were delivered, and what each measured, the latest first."""
        ...

    def dead_counts(self) -> dict[str, int]:
        """Dead letters by reason, most first."""
        ...

    def dead_letters(self, reason: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Dead letters in the order of their delivery; ``raw`` is bytes, or None where only the source has them."""
        ...

    def dead_numbers(self) -> tuple[int, int]:
        """The numbers of the first and of the last dead letter of all pipelines; (0, -1) where there is none."""
        ...

    def dead_between(
        self, pipeline: str, numbers: range, reason: str | None, limit: int
    ) -> list[tuple[int, dict[str, Any]]]:
        """Dead letters of a pipeline with these numbers, the latest first, at most ``limit``, each with its number."""
        ...

    def dead_reasons(self, pipeline: str, numbers: range) -> dict[str, int]:
        """How many dead letters of a pipeline with these numbers there are, by reason, most first."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...
