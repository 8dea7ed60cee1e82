"""Up to which instant a label counts for a record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant, parse_duration_ms, parse_instant_ms
from crossline.basics.values import I64
from crossline.evaluate.output import BoolMask

OPTION = "--labels-known-by"
NOW = "now"
FOREVER_MS = 2**62


@dataclass(frozen=True, slots=True)
class KnownBy:
    """The instant up to which labels count: a time after each record, or the same instant for all records.

    Attributes:
        as_of_ms: When the labels are read, epoch milliseconds: nothing is known of later ones.
        after_ms: Milliseconds after the record's event time. None: ``at_ms`` counts.
        at_ms: Epoch milliseconds, for all records. None without ``after_ms``: every label counts, whenever known.
    """

    as_of_ms: int
    after_ms: int | None = 0
    at_ms: int | None = None

    @staticmethod
    def parse(text: str | None, as_of_ms: int) -> KnownBy:
        """From the value of the option: ``+30d``, an instant, or ``now``; None: at the record itself.

        Raises:
            UsageError: It is none of these.

        >>> KnownBy.parse("+30d", 0).after_ms
        2592000000
        """
        if text is None:
            return KnownBy(as_of_ms)
        if text == NOW:
            return KnownBy(as_of_ms, None)
        try:
            if text.startswith("+"):
                return KnownBy(as_of_ms, parse_duration_ms(text[1:]))
            return KnownBy(as_of_ms, None, parse_instant_ms(text))
        except ValueError as error:
            expected = "a time after each record such as +30d, an instant such as 2026-03-01T00:00:00Z, or now"
            raise UsageError(f"{OPTION}: found {text}; expected {expected} ({error})") from None

    @property
    def text(self) -> str:
        """As the option has it."""
        if self.after_ms is not None:
            return f"+{self.after_ms}ms"
        return NOW if self.at_ms is None else format_instant(self.at_ms)

    @property
    def takes_undated(self) -> bool:
        """Whether a label counts of which nobody says when it was known."""
        return self.after_ms is None and self.at_ms is None

    def instants(self, event_ms: I64) -> I64:
        """The instant for each record: int64[n], epoch milliseconds."""
        if self.after_ms is not None:
            return event_ms + self.after_ms
        return np.full(len(event_ms), FOREVER_MS if self.at_ms is None else self.at_ms, np.int64)

    def mature(self, event_ms: I64) -> BoolMask:
        """Whether the instant has passed, bool[n]: a later label cannot change what the record has."""
        if self.takes_undated:
            return np.ones(len(event_ms), np.bool_)
        return self.instants(event_ms) <= self.as_of_ms
