"""An input that is cut into slices, each as a reference that a task anywhere can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from crossline.runtime.sources.intake import Intake


@dataclass(frozen=True, slots=True)
class Slices:
    """The slices of an input, in order; records of a later one are judged after those of an earlier one.

    Attributes:
        references: The slices.
        read: Reads one: batches for ``intake``. It can be pickled.
        intake: Decodes them.
        records: How many records all slices have at most.
    """

    references: Sequence[bytes]
    read: Callable[[bytes], Iterator[pa.RecordBatch]]
    intake: Intake
    records: int
