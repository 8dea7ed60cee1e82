"""Lines and rows as whole columns: cooldowns, rows that each judges, bits under another plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from crossline.basics.values import I64, U8

Lines = tuple[tuple[str, int], ...]  # rule ids and versions, by the numbers of their lines


class Judging(Protocol):
    """A line, formula, pattern or absence of a plan."""

    @property
    def rule_id(self) -> str:
        """Of which rule."""
        ...

    @property
    def version(self) -> int:
        """Of which version of it."""
        ...

    @property
    def cooldown_ms(self) -> int:
        """How long it is silent after an emission; 0: it has no cooldown."""
        ...


def lines_of(judging: Iterable[Judging]) -> Lines:
    """Their rule ids and versions."""
    return tuple((line.rule_id, line.version) for line in judging)


def cooldown_columns(judging: Iterable[Judging]) -> dict[tuple[str, int], int]:
    """Of each (rule id, version) with a cooldown, in which column of its kind a key has its last emission."""
    return {name: column for column, name in enumerate(lines_of(each for each in judging if each.cooldown_ms > 0))}


def cooldowns(judging: Sequence[Judging]) -> dict[str, I64]:
    """The arrays COOLDOWN, in ms, and COOLDOWN_COL, -1 for none, by the numbers of the lines; by lower-case names."""
    columns = cooldown_columns(judging)
    return {
        "cooldown": np.array([each.cooldown_ms for each in judging], np.int64),
        "cooldown_col": np.array([columns.get(name, -1) for name in lines_of(judging)], np.int64),
    }


def in_force(spans: Iterable[tuple[int, int]], judge_lateness_ms: int | None, ingest_ms: I64, lateness_ms: I64) -> Any:
    """bool[rows]: which rows are judged by what is in force in ``spans`` of ingest time (from, until).

    ``judge_lateness_ms``: later rows are not; None: there is no such bound.
    """
    found = np.zeros(len(ingest_ms), np.bool_)
    for start, end in spans:
        found |= (ingest_ms >= start) & (ingest_ms < end)
    return found if judge_lateness_ms is None else found & (lateness_ms <= judge_lateness_ms)


def remapped(bits: U8, old: Lines, new: Lines) -> U8:
    """Bits of the ``old`` lines, a row of bytes each, as bits of the ``new`` ones; 0 of those that came since."""
    if old == new:
        return bits
    out, numbers = np.zeros((len(bits), (len(new) + 7) // 8), np.uint8), {name: i for i, name in enumerate(old)}
    for at, name in enumerate(new):
        was = numbers.get(name)
        if was is not None:
            out[:, at >> 3] |= ((bits[:, was >> 3] >> (was & 7)) & 1) << np.uint8(at & 7)
    return out


def among(old: Lines, new: Lines) -> U8:
    """Bits of the ``new`` lines that are among the ``old`` ones."""
    known = set(old)
    return np.packbits(np.array([name in known for name in new], np.bool_), bitorder="little")


def members(class_of: Sequence[int], classes: int) -> U8:
    """Bits of the lines of each class, a row of bytes each; ``class_of``: of each line the number of its class."""
    found = np.zeros((classes, len(class_of)), np.bool_)
    found[class_of, np.arange(len(class_of))] = True
    return np.packbits(found, axis=1, bitorder="little")
