"""Replays of keys, judged by the inner kernel on a store of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from crossline.basics.bits import set_bits
from crossline.basics.values import I32, I64, U8
from crossline.plan.spaces import KeySpacePlan, WindowSpec
from crossline.state.batch import Cause, Delta, EarlierHits, Hits, KeyedBatch, LateContextHit, ReplayedRows
from crossline.state.retraction.constant_verdicts import KeyVerdicts
from crossline.state.retraction.replays import Replay
from crossline.state.retraction.table import Table
from crossline.state.windows.emission.columns import Lines
from crossline.state.windows.record_store import ANY_AGE
from crossline.state.windows.verdicts.single_record import context_window, read_single_record


class Inner(Protocol):
    """What judges rows in the order in which it is given them."""

    duplicate_ms: int

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take the rows in, in order, judging each."""
        ...

    def load(self, delta: Delta, lines: Lines) -> None:
        """Take in what was judged before."""
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Replays that are judged together: the rows before each, its own rows, and the number of the replay of each row.

    ``last``: whether it is the last of its key in the batch. ``begins`` and ``causes``: as in ``ReplayedRows``.
    ``repeats``: the first replay is the last one of the piece before, of the same key. Its hits are emitted already.
    ``hits``: what the rows' verdicts are, where that is known without judging them. ``moving``: lines that they do not
    speak of.
    """

    before: I64
    before_of: I64
    rows: I64
    rows_of: I64
    begins: Sequence[bool]
    last: Sequence[bool]
    causes: Sequence[Cause | None]
    repeats: bool = False
    hits: Hits | None = None
    moving: KeyVerdicts | None = None

    @staticmethod
    def of(replays: Sequence[Sequence[Replay]], *, repeats: bool = False, ended: bool = True) -> Piece:
        """The variants of some keys; ``ended``: of the last key too there are no more."""
        flat = [each for of_key in replays for each in of_key]
        numbers = np.arange(len(flat))
        last = [number == len(of_key) - 1 for of_key in replays for number in range(len(of_key))]
        last[-1] = ended
        return Piece(
            before=_joined([each.before for each in flat]),
            before_of=np.repeat(numbers, [len(each.before) for each in flat]),
            rows=_joined([each.rows for each in flat]),
            rows_of=np.repeat(numbers, [len(each.rows) for each in flat]),
            begins=[number == 0 for of_key in replays for number in range(len(of_key))],
            last=last,
            causes=[None if repeats and not at else each.cause for at, each in enumerate(flat)],
            repeats=repeats,
        )

    def known(self, none: Hits, sat: U8, retained: I32) -> Piece:
        """The same with verdicts: no hits, as ``none``; ``sat``: the lines that each row satisfies."""
        return replace(self, hits=replace(none, sat=sat, retained=retained))


def in_order_pieces(table: Table, ordered: I64, first: int, reach_ms: int, most: int) -> Iterator[Piece]:
    """The pieces of keys whose new rows, from number ``first`` on, come after all others; ``ordered``: all of them."""
    if not len(ordered):
        return
    keys = table.key[ordered]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    cuts = np.unique(np.searchsorted(starts, np.arange(0, len(ordered), most)))
    cuts = cuts[cuts < len(starts)]  # the last key alone may be more than are wanted
    for low, high in zip(cuts.tolist(), [*cuts[1:].tolist(), len(starts)], strict=True):
        end = starts[high] if high < len(starts) else len(ordered)
        rows = ordered[starts[low] : end]
        number = np.cumsum(np.diff(keys[starts[low] : end], prepend=-1) != 0) - 1
        new, clock_ms = rows >= first, table.number("clock_ms")[rows]
        begin_ms = np.full(high - low, np.iinfo(np.int64).max)
        np.minimum.at(begin_ms, number[new], clock_ms[new])
        near = ~new & (clock_ms >= begin_ms[number] - reach_ms)
        one = [True] * (high - low)
        yield Piece(rows[near], number[near], rows[new], number[new], one, one, [None] * (high - low))


def judged(
    table: Table,
    plan: Any,
    make: Callable[[Any], Inner],
    piece: Piece,
    first: int,
    shared: Callable[[str], str] | None = None,
) -> tuple[ReplayedRows, I64]:
    """What came of ``piece``, and the rows of its last replays, whose bits the table has now.

    ``first``: the number of the first row that came with this batch. ``shared``: where several rows may be hits on one
    record, the id of that, by a row's id.
    """
    batch, hits = _judged(table, plan, make, piece)
    behind = [
        found for number, line in plan.waiting for found in _behind(batch, number, context_window(plan, line), hits)
    ]
    met = [found for each in behind if (found := _met(plan, batch, *each)) is not None]
    line = np.append(hits.line, np.array([each.line for each in met], np.int32))
    of_hits = piece.rows[np.append(hits.row, np.array([each.row for each in met], np.int32))]
    was_emitted = table.bits("told")[of_hits, line >> 3] >> (line & 7) & 1
    if shared is not None and len(line):
        was_emitted |= _emitted_elsewhere(table, piece, of_hits, line, shared)
    again = ReplayedRows(
        rows=table.batch(piece.rows),
        hits=hits,
        number=piece.rows,
        replay=piece.rows_of.astype(np.int32),
        fresh=(piece.rows >= first) & ~((piece.rows_of == 0) & piece.repeats),
        emitted_before=was_emitted.astype(np.bool_),
        begins=np.array(piece.begins, np.bool_),
        causes=piece.causes,
        met=met,
        earlier=_earlier(table, piece),
    )
    np.bitwise_or.at(table.bits("told"), (of_hits, line >> 3), np.left_shift(1, line & 7).astype(np.uint8))
    return again, settled_in(table, piece, hits, behind)


def _judged(table: Table, plan: Any, make: Callable[[Any], Inner], piece: Piece) -> tuple[KeyedBatch, Hits]:
    """The rows of ``piece``, each replay's under a key of its own, and the hits on them."""
    names = np.arange(len(piece.begins), dtype="<i8")
    keys = names.view(np.uint8), np.arange(len(names) + 1, dtype=np.int64) * 8
    batch = table.batch(piece.rows, keys, piece.rows_of)
    if piece.hits is not None:
        return batch, piece.hits
    store, lines = make(plan), table.lines
    store.duplicate_ms = -ANY_AGE  # of two rows with one id neither is a duplicate
    if len(piece.before):
        before = table.batch(piece.before, keys, piece.before_of, judged=False)
        emitted_row, emitted_line = np.nonzero(_unpacked(table.bits("emitted")[piece.before], lines))
        sat = table.bits("sat")[piece.before]
        store.load(Delta(before, sat, emitted_line.astype(np.int32), emitted_row.astype(np.int32)), lines)
    return batch, store.judge(batch)


def _earlier(table: Table, piece: Piece) -> EarlierHits:
    """The last hits among the rows before those of each replay."""
    place, line = set_bits(table.bits("hit")[piece.before])
    replay = piece.before_of[place]
    # Rows of a replay are in order: reversed, the last of each line comes first.
    _, first = np.unique((replay * np.int64(len(table.lines)) + line)[::-1], return_index=True)
    last = len(line) - 1 - first
    rows = piece.before[place[last]]
    return EarlierHits(replay[last], line[last], rows, table.number("clock_ms")[rows], table.id_of)


def _met(plan: KeySpacePlan, batch: KeyedBatch, number: int, row: int, other: int) -> LateContextHit | None:
    line = dict(plan.waiting)[number]
    fields = {name: batch.facts[name][row].as_py() for name in line.verdict.fields}
    read = read_single_record(plan, line, int(batch.clock_ms[row]), fields, batch, other)
    return None if read is None else LateContextHit(number, row, other, read)


def _behind(batch: KeyedBatch, line: int, cursor: WindowSpec, hits: Hits) -> Iterator[tuple[int, int, int]]:
    """The rows that lack the first figure of ``line``, and what comes behind them at their time and is of its window.

    In the order of clocks nothing else comes that is: of what is known before it counts what is last.
    """
    rows = hits.without.get(line, np.zeros(0, np.int64))
    clock, key = batch.clock_ms, batch.key_index
    enters = (batch.filters[:, cursor.filter >> 3] >> (cursor.filter & 7)) & 1
    behind = np.minimum(rows + 1, len(batch) - 1)
    for row in rows[(behind > rows) & (clock[behind] == clock[rows]) & (key[behind] == key[rows])].tolist():
        other = row + 1
        while other < len(batch) and clock[other] == clock[row] and key[other] == key[row] and not enters[other]:
            other += 1
        if other < len(batch) and clock[other] == clock[row] and key[other] == key[row]:
            yield line, row, other


def _lack(table: Table, hits: Hits, piece: Piece, behind: Sequence[tuple[int, int, int]]) -> None:
    """Store which rows of the last replays still lack their figure."""
    last = np.array(piece.last, np.bool_)[piece.rows_of]
    table.bits("lacks")[piece.rows[last]] = 0
    found = {(line, row) for line, rows in hits.without.items() for row in rows[last[rows]].tolist()}
    for line, row in found - {(line, row) for line, row, _ in behind}:
        table.bits("lacks")[piece.rows[row], line >> 3] |= np.uint8(1 << (line & 7))


def _emitted_elsewhere(table: Table, piece: Piece, of_hits: I64, lines: Any, shared: Callable[[str], str]) -> Any:
    """For each hit whether it was emitted at another row that is a hit on the same record."""
    body, found = table.bits("told"), set[tuple[int, str, int, int]]()

    def named(row: int) -> tuple[int, str, int]:
        return int(table.key[row]), shared(table.id_of(row)), table.clock(row)

    # Also retracted rows: they are in no piece, and their hits were emitted.
    gone = np.flatnonzero(~table.live)
    rows = np.union1d(piece.rows, gone[np.isin(table.key[gone], table.key[np.unique(of_hits)])])
    for row in rows[body[rows].any(axis=1)].tolist():
        bits = np.flatnonzero(np.unpackbits(body[row], bitorder="little")).tolist()
        found |= {(*named(row), line) for line in bits}
    pairs = zip(of_hits.tolist(), lines.tolist(), strict=True)
    return np.array([(*named(row), line) in found for row, line in pairs], np.uint8)


def settled_in(table: Table, piece: Piece, hits: Hits, behind: Sequence[tuple[int, int, int]] = ()) -> I64:
    """Store the result of the last replay of each key in the table; the rows of these replays.

    ``behind``: of rows that lacked a figure those that found one, by line and row.
    """
    last = np.array(piece.last, np.bool_)[piece.rows_of]
    rows: I64 = piece.rows[last]
    _lack(table, hits, piece, behind)
    for name, row, line in (("emitted", hits.emitted_row, hits.emitted_line), ("hit", hits.row, hits.line)):
        marks = np.zeros((len(piece.rows), table.bits(name).shape[1]), np.uint8)
        np.bitwise_or.at(marks, (row, line >> 3), np.left_shift(1, line & 7).astype(np.uint8))
        table.bits(name)[rows] = marks[last]
    if hits.sat.shape[1]:
        table.bits("sat")[rows] = hits.sat[last]
    return rows


def _unpacked(bits: Any, lines: Lines) -> Any:
    return np.unpackbits(bits, axis=1, count=len(lines), bitorder="little")


def _joined(arrays: Sequence[I64]) -> I64:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int64)
