"""The clocks of logs: ingest times where records have none, and how far each log has come."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from crossline.basics.values import I64, Records
from crossline.evaluate.output import BoolMask

_NOTHING = np.iinfo(np.int64).min


@dataclass(slots=True)
class LogClocks:
    """``reached_ms``: by log, the highest ingest time so far. The files of a stream are one log, in their order."""

    reached_ms: dict[str, int] = field(default_factory=dict)

    def of(self, records: Records, log: str, counted: BoolMask | None = None) -> tuple[I64, I64]:
        """The ingest time of the n next records of a log, and the highest of the log up to each; int64[n] both.

        A record without an ingest time of its own has the highest event time of its log up to it.

        Args:
            records: The records.
            log: The log.
            counted: bool[n], which records move the clock; None: all.
        """
        own = records.event_ms if records.running_ms is None else records.running_ms
        given = own if records.ingest_ms is None else records.ingest_ms
        if not len(given) or (counted is not None and not counted.any()):
            return given, given
        moving = given if counted is None else np.where(counted, given, _NOTHING)
        first = given[0] if counted is None else given[counted][0]
        reached: I64 = np.maximum.accumulate(np.maximum(moving, self.reached_ms.get(log, int(first))))
        self.reached_ms[log] = int(reached[-1])
        return (reached if records.ingest_ms is None else records.ingest_ms), reached
