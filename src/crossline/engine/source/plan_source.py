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


def _no_doubt() -> Callable[[], None]:
    """Most sources look at each piece as they read it."""
    return _nothing


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """How to open a stream in Spark, how tasks read its rows, how to get the bytes of one record again, and its past.

    ``verify``: called once a batch has been read, asks whether it came from where the batches before it came from; what
    it returns is called before the batch is committed, and raises where it did not. ``close``: leave what is held open.

    ``history(spark, start, end)``: rows from the offset ``start`` (None: the beginning) up to ``end``, as a static
    DataFrame.
    """

    stream: str
    open: Callable[[SparkSession], DataFrame]
    intake: Intake
    fetch: FetchRaw
    history: Callable[[SparkSession, dict[str, Any] | None, dict[str, Any]], DataFrame]
    close: Callable[[], None] = _nothing
    verify: Callable[[], Callable[[], None]] = _no_doubt
