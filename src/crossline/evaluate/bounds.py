"""By how much logs and clocks of senders may lag, and how far streams are judged together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """``partition_lag_ms``: how far a record's ingest time may be behind the highest of its stream.

    Up to there it finds its windows whole, whether its log lags behind another or its sender's clock behind others.
    ``aligned``: streams that are judged up to the same ingest instants, however far each was read (see ``aligned``).
    ``decides``: suppressed hits are returned too, for decisions.
    """

    partition_lag_ms: int = 0
    aligned: tuple[str, ...] = ()
    decides: bool = False
