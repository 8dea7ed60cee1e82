"""Rolling figures by brute force, what rules answer by them, and how answers compare, record by record.

There are two semantics. In ``event`` order, the figure of a record contains all records of its key in (t - w, t],
whenever they arrive: a system that waits for a watermark gives this. In ``arrival`` order, it contains those that have
arrived by then, the record itself included: a system that answers at once gives this. A system is compared with the
semantics that it claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from bench.peers.naive import RULES, holds
from crossline.basics.values import F64, I64

Order = Literal["event", "arrival"]
# By rule, a figure for each record of the file; NaN where there is no answer.
Answers = Mapping[str, F64]
CASH = "CSH"


@njit  # type: ignore[untyped-decorator, unused-ignore]
def _scan(starts: I64, times_ms: I64, amounts: I64, window_ms: int, later: bool) -> tuple[I64, I64]:
    """Count and sum of each record's window: every pair of records of a key is compared. Sorted by key and arrival."""
    counts, sums = np.zeros_like(times_ms), np.zeros_like(times_ms)
    for group in range(len(starts) - 1):
        first, end = starts[group], starts[group + 1]
        for mine in range(first, end):
            low, high = times_ms[mine] - window_ms, times_ms[mine]
            for other in range(first, end if later else mine + 1):
                if low < times_ms[other] <= high:
                    counts[mine] += 1
                    sums[mine] += amounts[other]
    return counts, sums


@njit  # type: ignore[untyped-decorator, unused-ignore]
def _begins(starts: I64, times_ms: I64, satisfied: npt.NDArray[np.bool_], window_ms: int) -> npt.NDArray[np.bool_]:
    """Where a rule begins to hold: the key's record before did not satisfy it, or is a window older."""
    found = np.zeros_like(satisfied)
    for group in range(len(starts) - 1):
        for mine in range(starts[group], starts[group + 1]):
            before = mine - 1
            held = mine > starts[group] and satisfied[before] and times_ms[before] > times_ms[mine] - window_ms
            found[mine] = satisfied[mine] and not held
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """Answers of a system: equal to brute force, of another figure, absent, and given where there should be none."""

    right: int
    wrong: int
    missing: int
    extra: int

    def __add__(self, other: Compared) -> Compared:
        """Both together."""
        return Compared(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


def expected(records: pa.Table, rules: Sequence[str], order: Order, *, crossings: bool = False) -> Answers:
    """What each rule answers about ``records``, which are in the order of their arrival.

    With ``crossings``, only where the rule begins to hold for its key, not at every record where it holds.
    """
    return {rule: _answers(records, rule, order, crossings) for rule in rules}


def _answers(records: pa.Table, rule: str, order: Order, crossings: bool) -> F64:
    _, keys, window_ms, aggregate = next(each for each in RULES if each[0] == rule)
    chosen = np.arange(len(records))
    if aggregate == "avg":
        chosen = chosen[np.asarray(records["payment_type"].to_pylist()) == CASH]
    codes = _codes(records, keys)[chosen]
    by_key = np.argsort(codes, kind="stable")
    places, codes = chosen[by_key], codes[by_key]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]]).astype(np.int64)
    times_ms = records["event_time"].to_numpy().astype(np.int64)[places]
    counts, sums = _scan(
        starts, times_ms, records["amount_cents"].to_numpy().astype(np.int64)[places], window_ms, order == "event"
    )
    figures = {"count": counts, "sum": sums}[aggregate] if aggregate != "avg" else sums / counts
    satisfied = np.fromiter((holds(rule, value) for value in figures.tolist()), bool, len(figures))
    if crossings:
        satisfied = _begins(starts, times_ms, satisfied, window_ms)
    answers = np.full(len(records), np.nan)
    answers[places[satisfied]] = figures[satisfied]
    return answers


def _codes(records: pa.Table, keys: Sequence[str]) -> I64:
    """A number for each record, equal where all ``keys`` are."""
    codes = np.zeros(len(records), np.int64)
    for key in keys:
        column = records[key].combine_chunks().dictionary_encode()
        codes = codes * len(column.dictionary) + column.indices.to_numpy()
    return codes


def reported(answers: Iterable[tuple[str, str, float]], rules: Sequence[str], ids: Sequence[str]) -> Answers:
    """Answers of a system, (rule, record id, figure) in any order, on records with these ``ids``.

    Raises ValueError on a second answer of a rule to a record, and KeyError on an unknown rule or id.
    """
    places = {each: place for place, each in enumerate(ids)}
    found = {rule: np.full(len(ids), np.nan) for rule in rules}
    for rule, record, figure in answers:
        place = places[record]
        if not np.isnan(found[rule][place]):
            raise ValueError(f"two answers of {rule} to {record}: {found[rule][place]} and {figure}; expected one")
        found[rule][place] = figure
    return found


def compare(wanted: Answers, given: Answers) -> Compared:
    """``given`` beside ``wanted``, over all rules of the latter."""
    total = Compared(0, 0, 0, 0)
    for rule, right in wanted.items():
        wants, gives = ~np.isnan(right), ~np.isnan(given[rule])
        both = wants & gives
        equal = int((right[both] == given[rule][both]).sum())
        total += Compared(equal, int(both.sum()) - equal, int((wants & ~gives).sum()), int((gives & ~wants).sum()))
    return total


def count(answers: Answers) -> int:
    """Of all rules."""
    return sum(int((~np.isnan(each)).sum()) for each in answers.values())
