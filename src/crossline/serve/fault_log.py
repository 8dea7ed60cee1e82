"""Failures by id: the client gets the id, and the log has with it what failed and where.

Paths, addresses of brokers and databases, and what these said are for those who run the server.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from crossline.basics.errors import RetryableError
from crossline.logs import get_logger

ID_BYTES = 4
SAME_S = 60.0  # the same again, within this time, has the same id, and is logged once
KEPT_MAX = 1_000

log = get_logger(__name__)


class TellableError(RetryableError):
    """One whose text is for the caller: it names nothing of the server."""


class FaultLog:
    """Gives ids. ``clock_s``: seconds that only grow.

    Example:
        >>> faults = Faults()
        >>> first = faults.noted("the ledger takes nothing", "disk full")
        >>> faults.noted("the ledger takes nothing", "disk full") == first
        True
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._known: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()

    def noted(self, said: str, error: BaseException | str, **more: Any) -> str:
        """The id of what failed. ``said``: what was not done; ``error``: why, ``more``: of what. The log has all."""
        why = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        now_s = self._clock_s()
        known = self._known.get((said, why))
        if known is not None and now_s - known[1] < SAME_S:
            return known[0]
        fault = secrets.token_hex(ID_BYTES)
        self._known[said, why] = fault, now_s
        self._known.move_to_end((said, why))
        if len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)
        log.warning(said, fault=fault, error=why, **more)
        return fault


noted = FaultLog().noted


def with_fault(text: str, fault: str) -> str:
    """``text`` for the caller, with the id of the fault.

    >>> with_fault("the ledger does not take it now", "5f0c7a9e")
    'the ledger does not take it now (fault 5f0c7a9e, of which the log of the server has more)'
    """
    return f"{text} (fault {fault}, of which the log of the server has more)"
