"""What Spark's own checkpoint says of a pipeline."""

from __future__ import annotations

from pathlib import Path


def unfinished(checkpoint: str) -> bool:
    """Whether Spark planned a batch that it did not commit: it will be run again, and must meet the same rules."""
    return _newest(checkpoint, "offsets") > _newest(checkpoint, "commits")


def committed(checkpoint: str, batch: int) -> bool:
    """Whether Spark is done with ``batch`` and will not run it again."""
    return (Path(checkpoint) / "spark" / "commits" / str(batch)).exists()


def _newest(checkpoint: str, log: str) -> int:
    folder = Path(checkpoint) / "spark" / log
    numbers = [int(p.name) for p in folder.iterdir() if p.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)
