"""One stream's input, as a pipeline needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from crossline.engine.source.intake import Intake

# (partition, offset) -> the record's bytes as they came, None where they cannot be had any more.
FetchRaw = Callable[[str, int], bytes | None]


def _nothing() -> None:
    """Most sources hold nothing open."""


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """How to open a stream in Spark, how tasks read its rows, how to get the bytes of one record again, and its past.

    ``close``: leave what ``fetch`` holds open.

    ``history(spark, start, end)``: rows from the offset ``start`` (None: the beginning) up to ``end``, as a static
    DataFrame. ``slice_max``: how much of it to read at once, in what offsets count (records, chunks).
    """

    stream: str
    open: Callable[[SparkSession], DataFrame]
    intake: Intake
    fetch: FetchRaw
    history: Callable[[SparkSession, dict[str, Any] | None, dict[str, Any]], DataFrame]
    close: Callable[[], None] = _nothing
    slice_max: int = 100_000
