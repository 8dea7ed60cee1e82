"""When a runner that failed is tried again."""

from __future__ import annotations

from dataclasses import dataclass

REST_MAX = 200


@dataclass(slots=True)
class Rests:
    """Batches that are left to Spark after one that could not be handed over: one, then twice as many each time.

    >>> rests = Rests()
    >>> rests.failed()
    >>> rests.take(), rests.take()
    (True, False)
    """

    left: int = 0
    next: int = 1

    def take(self) -> bool:
        """Whether the next batch is one of them."""
        if not self.left:
            return False
        self.left -= 1
        return True

    def failed(self) -> None:
        """A batch could not be handed over."""
        self.left, self.next = self.next, min(2 * self.next, REST_MAX)

    def succeeded(self) -> None:
        """One was."""
        self.next = 1
