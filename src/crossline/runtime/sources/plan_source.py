"""One stream's input, as a pipeline needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.tokens.letters import withheld
from crossline.io.chunks import ChunkRef
from crossline.runtime.sources.intake import Intake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# (partition, offsets in order, until when on time.monotonic's clock) -> the bytes of records as they came, by offset,
# without those that cannot be had any more or not in time.
FetchRaw = Callable[[str, Sequence[int], float], dict[int, bytes]]


def fetchers_of(sources: Iterable[SourcePlan], streams: Mapping[str, StreamSpec]) -> dict[str, FetchRaw]:
    """What fetches the bytes of records, by stream; bytes of streams with sensitive fields are withheld."""
    return {each.stream: _withholding if streams[each.stream].sensitive else each.fetch for each in sources}


def _withholding(_partition: str, offsets: Sequence[int], _until_s: float) -> dict[int, bytes]:
    return withheld(offsets)


def _nothing() -> None:
    """Most sources hold nothing open."""


def _all() -> list[str]:
    """Most sources have given out all that is there."""
    return []


def records_before(offsets: Mapping[str, Any] | None) -> int:
    """Of offsets that count records, by topic and partition: how many those are."""
    return sum(records_before(each) if isinstance(each, Mapping) else each for each in (offsets or {}).values())


def lacks(begun: Mapping[str, Any] | None, first: Mapping[str, Any]) -> bool:
    """Whether a reader that goes on at ``begun`` (None: at 0) needs records before ``first``; by partition."""
    for name, offset in first.items():
        mine = (begun or {}).get(name)
        if lacks(mine, offset) if isinstance(offset, Mapping) else (mine or 0) < offset:
            return True
    return False


def _no_doubt() -> Callable[[], None]:
    """Most sources look at each piece as they read it."""
    return _nothing


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """How to open a stream in Spark, decode its rows in tasks, fetch the bytes of a record again, and read its history.

    ``verify``: called when a batch was read; it starts a check that the source is still the same. The function that it
    returns is called before the batch is committed, and raises where the source changed. ``close``: release open
    resources. ``left``: input that is in no batch, as texts for people.

    ``history(spark, start, end)``: rows from the offset ``start`` (None: the beginning) up to ``end``, as a static
    DataFrame. ``amount``: how much lies before an offset; ``slice_max``: how much of a past to read at once.
    ``client``: where the stream is topics, how their brokers are reached, secrets included. ``waiting``: how much
    (of ``unit``) lies behind an offset, as far as is known; None where the source cannot tell. ``listed``: the folder
    of the list of its chunks, where batches of it are to be small, and soon: these need no task of Spark.
    ``first``: given offsets of topics, the first that these still have; None where a source keeps its records.
    ``planned``: given where a batch ends, where the next one will; None where that is open, or never known before.
    ``chunks``: those from one number to another, where offsets are numbers of chunks, and batches of any size.
    ``records_max``: of topics, how many records a batch may have of them.
    """

    stream: str
    open: Callable[[SparkSession], DataFrame]
    intake: Intake
    fetch: FetchRaw
    history: Callable[[SparkSession, dict[str, Any] | None, dict[str, Any]], DataFrame]
    close: Callable[[], None] = _nothing
    amount: Callable[[dict[str, Any] | None], int] = records_before
    slice_max: int = 100_000
    left: Callable[[], list[str]] = _all
    verify: Callable[[], Callable[[], None]] = _no_doubt
    client: Mapping[str, str] | None = field(default=None, repr=False)
    waiting: Callable[[dict[str, Any] | None], int | None] | None = None
    unit: Literal["records", "bytes"] = "records"
    listed: str | None = None
    first: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    planned: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    chunks: Callable[[int, int], Sequence[ChunkRef]] | None = None
    records_max: int | None = None
