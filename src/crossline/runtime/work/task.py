"""What a step knows of where it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Task:
    """Part ``partition`` of ``partitions`` of batch ``batch_id`` of a query; batch 0 of no query in a batch job.

    ``began_ms``: when its records were first read as this batch; a batch that is run again has the same.
    ``spill_folder``: where large bodies of its rows go (see ``spill``); None: they stay in the rows.
    """

    query_id: str = ""
    batch_id: int = 0
    partition: int = 0
    partitions: int = 1
    began_ms: int | None = None
    spill_folder: Path | None = None
