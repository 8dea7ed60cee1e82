"""Decisions on every record, written by the task that made them: what is many does not pass the driver.

Each shard of ids has a file of its own, which one task at a time writes. It takes each decision once, by its id, so a
batch that is run again, by whichever process, adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from crossline.connectors.base import Delivery, RetryPolicy, deliver_all
from crossline.connectors.jsonl import decision_identity
from crossline.connectors.once_file import OnceFile
from crossline.core.basics.errors import UsageError
from crossline.engine.book.book import Book

# About half a minute. A task cannot be told to stop waiting: a disk that takes longer ends the run; the next goes on.
PATIENCE = RetryPolicy(max_ms=5_000, attempts_max=10)


def write_decisions(
    book: Book, batch_id: int, shard: int, decided: list[tuple[Sequence[Any], dict[str, Any]]]
) -> list[tuple[Sequence[Any], dict[str, Any]]]:
    """Write what ``shard`` decided, where the tasks write it; what is left for the sinks."""
    deciding = book.deciding
    if deciding is None or deciding.folder is None:
        return decided
    if decided:
        path = Path(deciding.folder) / f"decisions-{shard:04d}.jsonl"
        with closing(_ShardFile(path, deciding.pipeline)) as file:
            said = [decision for _, decision in decided]
            deliver_all([file], Delivery(deciding.pipeline, batch_id, decisions=said), PATIENCE)
    return [each for each in decided if each[1]["reasons"] or each[1]["kind"] == "revision"]


class _ShardFile:
    """A file as a sink: what it cannot take now it is given again. It is open for one batch, since others write it too.

    Guarantee: exactly once, by the ids of the lines (see OnceFile).
    """

    def __init__(self, path: Path, pipeline: str) -> None:
        self._file = OnceFile(path, pipeline, decision_identity)

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        """Not for pipeline files."""
        raise UsageError("files of decisions are no sink of their own; use decisions: {emit: all, path: …}")

    def open(self) -> None:
        """Nothing before the first delivery."""

    def deliver(self, delivery: Delivery) -> None:
        """Append the decisions that are not there yet."""
        self._file.open()
        self._file.append([dict(decision) for decision in delivery.decisions])

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
