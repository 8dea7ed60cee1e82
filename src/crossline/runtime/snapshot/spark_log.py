"""A reader of the offsets and commits in Spark's own checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

Offsets = dict[str, Any] | None


def unfinished(checkpoint: str) -> bool:
    """Whether Spark planned a batch that it did not commit: it will be run again, and must meet the same rules."""
    return unfinished_batch(checkpoint) is not None


def unfinished_batch(checkpoint: str) -> int | None:
    """The batch that Spark planned and did not commit."""
    newest = _newest(checkpoint, "offsets")
    return newest if newest > _newest(checkpoint, "commits") else None


def committed(checkpoint: str, batch: int) -> bool:
    """Whether Spark is done with ``batch`` and will not run it again."""
    return (Path(checkpoint) / "spark" / "commits" / str(batch)).exists()


def last_committed(checkpoint: str) -> int:
    """The newest batch that Spark is done with; -1: none."""
    return _newest(checkpoint, "commits")


def last_planned(checkpoint: str) -> int:
    """The newest batch that Spark planned; -1: none."""
    return _newest(checkpoint, "offsets")


def offsets_of(checkpoint: str, batch: int) -> list[Offsets]:
    """Where ``batch`` ends in each source, in their order; None for one that has given nothing yet."""
    return [None if line == "-" else orjson.loads(line) for line in _planned(checkpoint, batch)[2:]]


def bounds_of(checkpoint: str, batch: int, sources: int) -> list[tuple[Offsets, Offsets]] | None:
    """Where ``batch`` begins and ends in each source; None where that is not noted of so many, as of the first."""
    if batch == 0:
        return None
    try:
        begins, ends = offsets_of(checkpoint, batch - 1), offsets_of(checkpoint, batch)
    except OSError:
        return None
    return list(zip(begins, ends, strict=True)) if len(begins) == len(ends) == sources else None


def first_offsets(checkpoint: str, source: int) -> dict[str, Any] | None:
    """Where Spark began to read source number ``source``, as it notes for topics; None where it notes nothing."""
    begun = Path(checkpoint) / "spark" / "sources" / str(source) / "0"
    if not begun.exists():
        return None
    found: dict[str, Any] = orjson.loads(begun.read_bytes().partition(b"\n")[2])
    return found


def query_id(checkpoint: str) -> str:
    """The id of the checkpoint's query, which Spark notes before the first batch and keeps."""
    return str(orjson.loads((Path(checkpoint) / "spark" / "metadata").read_bytes())["id"])


def began_ms(checkpoint: str, batch: int) -> int:
    """When Spark planned ``batch``, in epoch milliseconds: noted then, and the same however often it is run again."""
    return int(orjson.loads(_planned(checkpoint, batch)[1])["batchTimestampMs"])


def _planned(checkpoint: str, batch: int) -> list[str]:
    """A version, the batch's metadata, then one line a source."""
    return (Path(checkpoint) / "spark" / "offsets" / str(batch)).read_text().splitlines()


def next_offsets(checkpoint: str, source: int) -> dict[str, Any] | None:
    """Where reading of source number ``source`` goes on; None where nothing reports it yet."""
    last = _newest(checkpoint, "commits")
    if last >= 0:
        return offsets_of(checkpoint, last)[source]
    # Nothing is done, but a first batch may have been planned: Spark's Kafka source has noted where it begins.
    begun = Path(checkpoint) / "spark" / "sources" / str(source) / "0"
    found: dict[str, Any] | None = orjson.loads(begun.read_bytes().partition(b"\n")[2]) if begun.exists() else None
    return found


def _newest(checkpoint: str, log: str) -> int:
    folder = Path(checkpoint) / "spark" / log
    numbers = [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)
