"""Aggregates of a window, each by the twin that it declares. None is 'undefined', which satisfies nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crossline.programs.aggregate import Scanned
from crossline.programs.registry import declared


def aggregate(kind: str, values: Sequence[Any], *, real: bool = False, **window: Any) -> int | float | None:
    """``values`` in the order of the window: by clock, ties by ingest order.

    ``real``: they are floats, though there may be none. ``window``: what else its twin wants (see ``Scanned``).
    """
    real = real or any(isinstance(value, float) for value in values)
    return declared(kind).by_twin(Scanned(values, real=real, **window))
