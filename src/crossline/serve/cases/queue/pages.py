"""A queue page by page: frozen as it was when its first page was read, so that no case comes twice or is left out."""

from __future__ import annotations

import secrets
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.queue import case_search, queries
from crossline.serve.cases.queue.case_columns import CaseColumns, Rows
from crossline.serve.cases.queue.filters import QueueFilter

FROZEN_MAX = 10_000  # cases of a list that is frozen; behind them it goes on by the order as it is then
KEPT_MAX = 32  # queues that are frozen at once; of one that is gone, the next page goes on by its order as it is now
COUNTED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class QueueResult:
    """``items``: cases; ``place``: where the next page begins, None at the end; ``total``: how many there are."""

    items: list[dict[str, Any]]
    place: list[Any] | None
    total: int


@dataclass(frozen=True, slots=True)
class Frozen:
    """A list as it was: ``order`` has the first of its ``end`` cases. ``total``: with those of pages before it."""

    order: Rows
    end: int
    total: int


class Queue:
    """Reads the queue of a file. From any thread."""

    def __init__(self, file: CaseFile) -> None:
        self._file = file
        self.board = CaseColumns(file)
        self._frozen: OrderedDict[str, Frozen] = OrderedDict()
        self._lock = threading.Lock()

    def rows(self, wanted: QueueFilter, who: str) -> Rows:
        """The rows of all cases that meet ``wanted``, in the order in which they were opened."""
        self.board.follow()
        searched = case_search.matching_rows(self._file, wanted.q) if wanted.q.strip() else None
        having = case_search.having(self._file, wanted.key) if wanted.key else None
        return self.board.rows(wanted, who, case_search.both((searched, having)))

    def page(
        self, wanted: QueueFilter, who: str, sort: str = "newest", place: Sequence[Any] | None = None, limit: int = 50
    ) -> QueueResult:
        """A page of cases. ``place``: that of the page before, with the same ``wanted`` and ``sort``."""
        token, at, frozen = self._order(wanted, who, sort, place)
        part, more = frozen.order[at : at + limit], None
        if len(part) and at + len(part) < frozen.end:
            token = token or self._freeze(frozen)
            more = [token, at + len(part), *self.board.place(int(part[-1]), sort)]
        return QueueResult(queries.listed(self._file, part.tolist()), more, frozen.total)

    def count(self, wanted: QueueFilter, who: str) -> dict[str, Any]:
        """How many cases meet ``wanted``: exact up to ``COUNTED_MAX``, beyond that there are ``more``."""
        found = len(self.rows(wanted, who))
        return {"count": min(found, COUNTED_MAX), "more": found > COUNTED_MAX}

    def _order(
        self, wanted: QueueFilter, who: str, sort: str, place: Sequence[Any] | None
    ) -> tuple[str | None, int, Frozen]:
        """The list of ``place``, by name where it is frozen already, and where in it the page begins."""
        if place is not None:
            with self._lock:
                known = self._frozen.get(place[0])
                if known is not None and 0 <= int(place[1]) < len(known.order):
                    self._frozen.move_to_end(place[0])
                    return place[0], int(place[1]), known
        found = self.rows(wanted, who)
        if place is None:
            order = self.board.sorted(found, sort, FROZEN_MAX)
            return None, 0, Frozen(order, len(found), len(found))
        order, behind = self.board.sorted(found, sort), [-each for each in place[2:]]
        at = bisect_right(order, behind, key=lambda row: [-each for each in self.board.place(int(row), sort)])
        return None, 0, Frozen(order[at : at + FROZEN_MAX], len(order) - at, len(found))

    def _freeze(self, frozen: Frozen) -> str:
        token = secrets.token_hex(6)
        with self._lock:
            self._frozen[token] = frozen
            while len(self._frozen) > KEPT_MAX:
                self._frozen.popitem(last=False)
        return token
