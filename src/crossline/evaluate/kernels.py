"""The interface of kernels, which judge the records of a state store.

There are kernels for windows of records (``state/windows``), windows of panes (``state/panes``) and patterns
(``state/patterns``). A new kernel is a class and a line in ``KERNELS``. The kind of the state store's plan selects the
kernel. ``state/retraction`` wraps the kernels of windows and patterns; it replays rows that a late record changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from crossline.plan.spaces import PlanKind
from crossline.state.batch import Delta, DueHits, Hits, KeyedBatch
from crossline.state.windows.record_store import Sizes

if TYPE_CHECKING:
    from crossline.state.retraction.kernel import Reevaluation


class Kernel(Protocol):
    """The state of one state store of one shard.

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

    def due(self, clock_ms: int) -> DueHits | None:
        """Hits that come of nothing but time: those that are due once the stream's clock stands here; else None."""
        ...

    def evict(self, cutoff_ms: int) -> None:
        """Drop records with a clock at or before this, now or later."""
        ...

    def sizes(self) -> Sizes:
        """What is held."""
        ...


# By module and class: a kernel is loaded once a plan is of its kind.
KERNELS: Mapping[PlanKind, str] = {
    "windows": "crossline.state.windows.store:KeySpaceState",
    "panes": "crossline.state.panes.store:PaneState",
    "patterns": "crossline.state.patterns.store:PatternSpaceState",
    "decided": "crossline.evaluate.decision_memory:DecidedStore",
    "absences": "crossline.state.patterns.absence_store:AbsenceSpaceState",
}


def new_kernel(plan: Any, *, reevaluates: bool = False) -> Kernel:
    """One that judges by ``plan`` and holds nothing yet; ``reevaluates``: the rows, too, that a late one may change."""
    module, _, name = KERNELS[plan.kind].partition(":")
    make: Callable[[Any], Kernel] = getattr(import_module(module), name)
    if not reevaluates:
        return make(plan)
    from crossline.state.retraction.kernel import Reevaluation  # noqa: PLC0415 - for rules with `reevaluate` alone

    return Reevaluation(plan, make)


def retraction_of(store: Kernel) -> Reevaluation:
    """``store`` as the retraction kernel that ``new_kernel`` returns for a state store with ``reevaluate``."""
    return cast("Reevaluation", store)
