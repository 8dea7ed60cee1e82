"""What queues filter and sort by, of every case, in columns in memory; it follows the file of cases.

A queue of 300,000 cases is filtered in a few milliseconds by any combination, and counted exactly. The file stays what
holds: before each use what changed there since, by whatever process, is read again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from crossline.rules.policy.words import ACTIONS, SEVERITIES
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.summary import SEPARATOR
from crossline.serve.cases.values import STATES

Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

PIECE = 20_000
_COLUMNS: Mapping[str, Any] = {
    "state": (np.int8, -1),
    "severity": (np.int8, -1),
    "last_ms": (np.int64, 0),
    "opened_ms": (np.int64, 0),
    "money": (np.float64, np.nan),
    "decision": (np.int8, -1),
    "resolved_ms": (np.int64, 0),
    "assignee": (np.int32, 0),
    "escalated_to": (np.int32, 0),
    "rules": (np.int32, 0),
    "streams": (np.int32, 0),
    "kinds": (np.int32, 0),
}
_WORDS = ("assignee", "escalated_to", "rules", "streams", "kinds")  # as codes
_NAMES = ", ".join(_COLUMNS)
_CHANGED = f"SELECT seq, change_no, {_NAMES} FROM cases WHERE change_no > ? ORDER BY change_no LIMIT {PIECE}"  # noqa: S608 - our names
_PLACES: Mapping[str, tuple[str, ...]] = {
    "money": ("money", "last_ms"),
    "severity": ("severity", "last_ms"),
    "opened": (),
}
_STATE: Mapping[str, int] = {name: code for code, name in enumerate(STATES)}


class CaseColumns:
    """The columns of all cases of ``file``. From any thread."""

    def __init__(self, file: CaseFile) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._columns = {name: np.full(0, empty, kind) for name, (kind, empty) in _COLUMNS.items()}
        self._codes: dict[str, dict[str, int]] = {name: {"": 0} for name in _WORDS}
        self._texts: dict[str, list[str]] = {name: [""] for name in _WORDS}
        # By a word the codes of the texts that have it: a rule may stand in many sets of rules.
        self._having_word: dict[str, dict[str, list[int]]] = {name: {} for name in _WORDS}
        self._change = 0
        self._end = 1

    def follow(self) -> int:
        """Read what changed since; the number of the last change that is in."""
        with self._lock:
            while found := self._file.rows(_CHANGED, (self._change,)):
                self._take(found)
                self._change = found[-1]["change_no"]
                if len(found) < PIECE:
                    break
            return self._change

    def rows(self, wanted: QueueFilter, who: str, among: Iterable[int] | None = None) -> Rows:
        """The rows of cases that meet ``wanted`` but for its texts and keys; ``among``: of these alone."""
        with self._lock:
            if among is None:
                return np.flatnonzero(self._mask(wanted, who, slice(0, self._end)))
            some = np.unique(np.fromiter(among, np.int64))
            some = some[(some > 0) & (some < self._end)]
            return some[self._mask(wanted, who, some)]

    def sorted(self, found: Rows, sort: str, most: int | None = None) -> Rows:
        """``found``, what comes first in the queue first; ``most``: no more than so many of them."""
        with self._lock:
            names = _PLACES.get(sort, ("last_ms",))
            keys = [self._columns[name][found].astype(np.float64) for name in names]
            keys = [np.nan_to_num(each, nan=-1e308, posinf=1e308) for each in keys]
            keys.append(found.astype(np.float64))
            if most is not None and most < len(found):
                first = _first(keys, most)
                found, keys = found[first], [each[first] for each in keys]
            return found[np.lexsort([-each for each in reversed(keys)])]

    def place(self, row: int, sort: str) -> list[float]:
        """Where a case stands in a sorted queue, to go on behind it."""
        with self._lock:
            names = _PLACES.get(sort, ("last_ms",))
            values = [np.nan_to_num(self._columns[name][row], nan=-1e308, posinf=1e308) for name in names]
            return [*map(float, values), float(row)]

    def similar(self, row: int, limit: int) -> Rows:
        """Resolved cases that crossed one of its rules, about the same kind of entity, the latest resolved first."""
        with self._lock:
            column = self._columns
            mine = set(self._texts["rules"][column["rules"][row]].split(SEPARATOR)) - {""}
            kinds = set(self._texts["kinds"][column["kinds"][row]].split(SEPARATOR)) - {""}
            mask = column["state"][: self._end] == _STATE["resolved"]
            mask &= self._having("rules", mine)[column["rules"][: self._end]]
            mask &= self._having("kinds", kinds)[column["kinds"][: self._end]]
            mask[row] = False
            found = np.flatnonzero(mask)
            times = column["resolved_ms"][found]
            if len(found) > limit:
                part = np.argpartition(-times, limit)[:limit]
                part = np.flatnonzero(times >= times[part].min())
                found, times = found[part], times[part]
            return found[np.lexsort((-found, -times))][:limit]

    def _take(self, found: Iterable[Any]) -> None:
        rows = [tuple(each) for each in found]
        columns = list(zip(*rows, strict=True))
        seq = np.array(columns[0], np.int64)
        self._grow(int(seq.max()) + 1)
        for name, values in zip(_COLUMNS, columns[2:], strict=True):
            empty = _COLUMNS[name][1]
            if name in _WORDS:
                coded = [self._code(name, each or "") for each in values]
            elif name == "state":
                coded = [_STATE[each] for each in values]
            else:
                coded = [empty if each is None else each for each in values]
            self._columns[name][seq] = coded

    def _grow(self, end: int) -> None:
        self._end = max(self._end, end)
        size = len(self._columns["state"])
        if end > size:
            for name, (kind, empty) in _COLUMNS.items():
                grown = np.full(max(end, 2 * size), empty, kind)
                grown[:size] = self._columns[name]
                self._columns[name] = grown

    def _mask(self, wanted: QueueFilter, who: str, part: slice | Rows) -> Bools:
        column = {name: each[part] for name, each in self._columns.items()}
        mask: Bools = self._view(wanted.view, who, column)
        if wanted.status is not None:
            mask &= column["state"] == _STATE[wanted.status]
        if wanted.assignee is not None:
            mask &= column["assignee"] == self._codes["assignee"].get(wanted.assignee, -1)
        if wanted.severity is not None:
            mask &= column["severity"] >= SEVERITIES.index(wanted.severity)
        if wanted.decision is not None:
            mask &= column["decision"] == ACTIONS.index(wanted.decision)
        if wanted.money is not None:
            mask &= column["money"] >= wanted.money
        if wanted.stream is not None:
            mask &= self._having("streams", {wanted.stream})[column["streams"]]
        if wanted.rule_id is not None:
            mask &= self._having("rules", {wanted.rule_id})[column["rules"]]
        for name, bound in (("from_ms", wanted.from_ms), ("to_ms", wanted.to_ms)):
            if bound is not None:
                at_ms = max(-(2**62), min(bound, 2**62))
                mask &= column["last_ms"] >= at_ms if name == "from_ms" else column["last_ms"] < at_ms
        return mask

    def _view(self, view: str, who: str, column: Mapping[str, Any]) -> Bools:
        state = column["state"]
        if view == "all":
            return np.asarray((state >= 0) & (state != _STATE["merged"]))
        if view in {"snoozed", "escalated", "resolved"}:
            return np.asarray(state == _STATE[view])
        inbox = (state == _STATE["open"]) | (state == _STATE["acknowledged"])
        if view == "open":
            return np.asarray(inbox)
        if view == "unassigned":
            return np.asarray(inbox & (column["assignee"] == 0))
        mine = inbox & (column["assignee"] == self._codes["assignee"].get(who, -1))
        to_me = column["escalated_to"] == self._codes["escalated_to"].get(who, -1)
        return np.asarray(mine | ((state == _STATE["escalated"]) & to_me))

    def _having(self, name: str, wanted: set[str]) -> Bools:
        """Of each code whether its text has one of ``wanted``: there are far fewer sets of rules than cases."""
        mask = np.zeros(len(self._texts[name]), np.bool_)
        for each in wanted:
            mask[self._having_word[name].get(each, [])] = True
        return mask

    def _code(self, name: str, text: str) -> int:
        known = self._codes[name].get(text)
        if known is None:
            known = self._codes[name][text] = len(self._texts[name])
            self._texts[name].append(text)
            for each in text.split(SEPARATOR):
                self._having_word[name].setdefault(each, []).append(known)
        return known


def _first(keys: list[npt.NDArray[np.float64]], most: int) -> Rows:
    """The places of the ``most`` greatest by ``keys``, in no order: the first key counts, among equals the next."""
    key = keys[0]
    bound = np.partition(key, len(key) - most)[len(key) - most]
    above, equal = np.flatnonzero(key > bound), np.flatnonzero(key == bound)
    left = most - len(above)
    if left < len(equal):
        equal = equal[_first([each[equal] for each in keys[1:]], left)]
    return np.concatenate((above, equal))
