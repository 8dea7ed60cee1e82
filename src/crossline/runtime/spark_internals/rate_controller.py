"""How much a batch of topics reads: as much as batches do in the time that one should take."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from crossline.logs import get_logger

RECORDS_MIN = 1_000  # a batch of fewer takes hardly less time
STEP = 2.0  # by how much it changes at most from batch to batch
FULL = 0.9  # a batch that reads this part of what it may could have read more
_KAFKA = "KafkaMicroBatchStream"

log = get_logger(__name__)


class RateController:
    """The most records of the next batch, of all topics together: up to ``records_max``.

    ``within_ms``: how long a batch should take. What a batch reads is Spark's to plan and to note, before it runs: so
    one that is run again reads the same, whatever was meant for the next.
    """

    def __init__(self, records_max: int, within_ms: int) -> None:
        self._max = records_max
        self._within_ms = within_ms
        self.records = records_max
        self._began = False

    def batch(self, records: int, took_ms: float) -> None:
        """A batch had so many records, and was judged in so long."""
        began, self._began = self._began, True
        if not began:  # starts what later ones find running
            return
        wanted = self._within_ms / max(took_ms, 1.0)
        if wanted < 1:
            at_most = min(self.records, max(records, RECORDS_MIN)) * max(wanted, 1 / STEP)
            self.records = max(min(RECORDS_MIN, self._max), round(at_most))
        elif records >= FULL * self.records:
            self.records = min(self._max, round(self.records * min(wanted, STEP)))

    @property
    def share(self) -> float:
        """Of what a batch may read at all."""
        return self.records / self._max


class ReadLimits:
    """The bounds of a running query's topics, controlled by ``pace``.

    Spark reads its bound from an option, once. But it keeps, beside each source, the limit that it asks it with, and
    has both readable and settable. In a version without them the bound stays the value of the option.
    """

    def __init__(self, spark: SparkSession, pace: RateController) -> None:
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to Java
        self._pace = pace
        self._share = 1.0
        self._most: list[tuple[Any, int]] | None = None

    def set(self, query: StreamingQuery) -> None:
        """Have the next batch of ``query`` read as much as it should. While it calls back: then none is planned."""
        share = self._pace.share
        if share == self._share:
            return
        try:
            execution = query._jsq.streamingQuery()  # noqa: SLF001 - as above
            limits = execution.uniqueSources()
            limit_of = self._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows
            if self._most is None:
                self._most = _topics(limits)
            for source, most in self._most:
                limits = limits.updated(source, limit_of(max(1, round(most * share))))
            getattr(execution, "uniqueSources_$eq")(limits)
        except Exception as error:  # noqa: BLE001 - whatever it is, the option holds
            log.warning("batches are bounded by max_batch_records alone", error=repr(error))
            self._most = []
        self._share = share


def _topics(limits: Any) -> list[tuple[Any, int]]:
    """Each source of topics, and how many records a batch may request from it."""
    found = []
    pairs = limits.iterator()
    while pairs.hasNext():
        pair = pairs.next()
        source, limit = pair.productElement(0), pair.productElement(1)
        if _KAFKA in source.getClass().getName():
            found.append((source, int(limit.maxRows())))
    return found
