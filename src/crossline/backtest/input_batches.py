"""The input of a backtest, batch by batch: from files, or from a store of decoded records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from crossline.runtime.local.pool import Dealt
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.intake import Intake
from crossline.runtime.sources.slices import Slices


class BacktestInputs(Protocol):
    """The input of a backtest, batch by batch."""

    @property
    def intake(self) -> Intake:
        """Decodes the rows of batches."""
        ...

    @property
    def anywhere(self) -> bool:
        """Whether each piece of a batch may be read by any process, or the first by the first, and so on."""
        ...

    def aligned(self, snapshot: PlanSnapshot) -> PlanSnapshot:
        """``snapshot`` with the bounds that the input needs."""
        ...

    def batches(self, count: int) -> Iterator[Dealt]:
        """The pieces of each batch, for ``count`` processes."""
        ...

    def share(self, batch: int) -> float:
        """The share of the input that is done after ``batch``, 0 to 1."""
        ...


@runtime_checkable
class PinnedInputs(BacktestInputs, Protocol):
    """Inputs that can be cut into the same batches again, after a stop."""

    def pin(self) -> dict[str, Any]:
        """What cuts them, as plain JSON."""
        ...

    def pinned(self, cuts: Mapping[str, Any], place: Sequence[int]) -> PinnedInputs:
        """The batches from ``place`` on, by what ``pin`` gave."""
        ...

    def place(self) -> Sequence[int]:
        """Where the batch after the one that was read last begins; nothing: at the start."""
        ...


class StoredInput(Protocol):
    """The input of a replay from a store of decoded records."""

    def open(self, folder: Path, count: int, batch_bytes: int) -> BacktestInputs:
        """Its batches, for ``count`` processes; ``folder``: for temporary files."""
        ...

    def slices(self, batch_bytes: int) -> Slices:
        """The same batches as references that tasks on other machines can read."""
        ...
