"""What judges the records of a layer, as the shard sees it: the same few calls, whatever way of looking at the past.

Windows of records (``core/windows``) are one way, windows of panes (``core/panes``) another. One more is another class
beside them and another line in ``KERNELS``; the kind of the layer's plan says which of them a layer needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from crossline.core.panes.store import PaneState
from crossline.core.plan.spaces import KeySpacePlan, PaneSpacePlan
from crossline.core.windows.batch import Delta, Hits, KeyedBatch
from crossline.core.windows.store import KeySpaceState, Sizes


class Kernel(Protocol):
    """The records that one layer of one shard keeps, and what its rules see in them.

    ``duplicate_ms``: how far behind its own ingest time a record's first copy may be and still be known.
    """

    plan: Any
    duplicate_ms: int

    @property
    def records(self) -> int:
        """Records held."""
        ...

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take the rows in, in order, judging each."""
        ...

    def delta(self, batch: KeyedBatch, hits: Hits) -> Delta:
        """What ``judge(batch)``, which gave ``hits``, added."""
        ...

    def load(self, delta: Delta, lines: tuple[tuple[str, int], ...]) -> None:
        """Take in what was judged before; ``lines``: the rule versions that judged it."""
        ...

    def replan(self, plan: Any) -> None:
        """Judge by ``plan``, which is of the same kind, from now on."""
        ...

    def evict(self, cutoff_ms: int) -> None:
        """Drop records with a clock at or before this, now or later."""
        ...

    def sizes(self) -> Sizes:
        """What is held."""
        ...


KERNELS: Mapping[type, Callable[[Any], Kernel]] = {KeySpacePlan: KeySpaceState, PaneSpacePlan: PaneState}


def new_kernel(plan: Any) -> Kernel:
    """One that judges by ``plan`` and holds nothing yet."""
    return KERNELS[type(plan)](plan)
