"""How much of a backlog of chunks one batch takes."""

from __future__ import annotations

from dataclasses import dataclass, field

TARGET_S = 3.0  # of a batch: planning, delivery and logs, some 0.3 s of each, are then a tenth of it
FIRST_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class BatchSize:
    """The size of full batches, in the unit of the source: it follows the seconds that they take.

    Batches begin with ``first`` and never have less. They grow to at most ``most`` while they take less than
    ``TARGET_S``, to at most twice the size at a time, and shrink where they take longer.

    >>> size = BatchSize(first=64, most=256)
    >>> size.took(64, 1.0), size.took(128, 2.0), size.took(192, 6.0)
    (128, 192, 96)
    """

    first: int
    most: int
    now: int = field(init=False)

    def __post_init__(self) -> None:
        self.first = min(self.first, self.most)
        self.now = self.first

    def took(self, size: int, seconds: float) -> int:
        """The size of the batches to come, after one of ``size`` took ``seconds``."""
        wanted = size * TARGET_S / max(seconds, 1e-3)
        self.now = max(self.first, min(self.most, 2 * size, int(wanted)))
        return self.now
