"""The retraction kernel: it replays keys with late records on an inner kernel that judges rows in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from crossline.basics.values import I32, I64
from crossline.plan.pattern_spaces import PatternSpacePlan
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import Bools, Delta, Failure, Hits, KeyedBatch, ReplayedRows, no_hits
from crossline.state.retraction.constant_verdicts import ConstantVerdicts, KeyVerdicts
from crossline.state.retraction.delta_arrays import facts_in, places_in
from crossline.state.retraction.far_verdicts import FAR_FROM, FarVerdicts, Tries
from crossline.state.retraction.intake import IntakeRows, carry_emitted, enter
from crossline.state.retraction.replay_kernel import Inner, Piece, in_order_pieces, judged, settled_in
from crossline.state.retraction.replays import Replay, arrivals_of, replays_of
from crossline.state.retraction.table import BITS, Table
from crossline.state.retraction.verdict_changes import changes_of, settle
from crossline.state.windows.emission.columns import Lines, lines_of, remapped
from crossline.state.windows.point_query import loaded, numbered
from crossline.state.windows.record_store import ANY_AGE, Sizes

PIECE = 400_000  # rows that are judged together, where they are of several keys

Plan = KeySpacePlan | PatternSpacePlan


class Reevaluation:
    """One key space of one shard, judged in the order of clocks. A late row triggers a replay.

    ``make``: the kernel of a plan. ``duplicate_ms``: as of other kernels; a retracted row is no duplicate.
    ``all_held``: whether it matters where a line holds and is no hit, as it does to decisions.
    """

    all_held = True

    def __init__(self, plan: Plan, make: Callable[[Any], Inner], duplicate_ms: int = ANY_AGE) -> None:
        self.plan = plan
        self.duplicate_ms = duplicate_ms
        self._make = make
        self._table = Table(lines_of(plan.judging), (plan.filters + 7) // 8)
        self._constant, self._far = ConstantVerdicts.of(plan), FarVerdicts.of(plan)
        self._far_tries = Tries()
        self._delta: Delta | None = None
        self._came = 0

    @property
    def records(self) -> int:
        """Records held."""
        return len(self._table)

    def judge(self, batch: KeyedBatch) -> Hits:
        """Take ``batch`` in; what came of judging its rows, and others again, stands in ``replayed``."""
        table, first = self._table, len(self._table)
        entered = enter(table, batch, self.duplicate_ms)
        again, failed, changed = list[ReplayedRows](), dict[Failure, int](), [entered.removed]
        places = batch.arrival
        shared = places.named if places is not None and places.shared else None
        tied = shared is not None or bool(self.plan.waiting)
        for piece in self._pieces(entered, first, tied=tied):
            if piece.hits is not None and not self.all_held:  # there is no hit, and that lines hold is nobody's
                changed.append(settled_in(table, piece, piece.hits))
            else:
                found, settled = judged(table, self.plan, self._make, piece, first, shared)
                again.append(found)
                changed.append(settled)
                for failure, count in found.hits.failed.items():
                    failed[failure] = failed.get(failure, 0) + count
            if piece.moving is not None:
                again += self._moved(piece.moving, first, entered)
            carry_emitted(table, entered.follows)
        self._came = len(table) - first
        is_changed = np.zeros(len(table), np.bool_)
        is_changed[np.concatenate(changed)] = True
        self._delta = table.delta(np.arange(first, len(table)), np.flatnonzero(is_changed[:first]))
        table.key[[before for before, _ in entered.follows]] = -1
        return replace(no_hits(entered.duplicates), replayed=again, failed=failed)

    def _pieces(self, entered: IntakeRows, first: int, *, tied: bool) -> Iterator[Piece]:
        """What is to be judged: of most keys the new rows alone, and in some piece by piece what changes."""
        table, reach_ms = self._table, self.plan.retention_ms + 1
        touched = np.zeros(table.keys, np.bool_)
        touched[entered.keys[entered.row >= 0]] = True
        touched[entered.apart(table)] = True
        if not tied and not len(entered.removed):
            for number, piece in self._far_pieces(np.flatnonzero(touched), entered, first):
                touched[number] = False
                yield piece
        if not touched.any():
            return
        changing = np.zeros(len(table), np.bool_)
        changing[first:] = changing[entered.removed] = True
        mine = (table.key >= 0) & (table.live | changing)
        rows = np.flatnonzero(mine & touched[table.key])
        if not tied and not len(entered.removed):
            rows = _near(table, rows, first, reach_ms, entered)
        ordered = table.in_order(rows)
        apart = _out_of_order(table, ordered, first, entered, tied=tied)
        is_apart = apart[table.key[ordered]]
        yield from in_order_pieces(table, ordered[~is_apart], first, reach_ms, PIECE)
        yield from self._apart(entered, ordered[is_apart], first, tied=tied)

    def _far_pieces(self, keys: I64, entered: IntakeRows, first: int) -> Iterator[tuple[int, Piece]]:
        """Of ``keys``, where they are few, those whose many rows need not be loaded, and the piece of each."""
        table = self._table
        if self._far is None or len(table) < FAR_FROM * len(keys):
            return
        others, tries = set(entered.apart(table).tolist()), self._far_tries
        for number in (each for each in keys.tolist() if each not in others):
            if not tries.wanted(number):
                continue
            rows = np.flatnonzero((table.key == number) & table.live)
            if len(rows) >= FAR_FROM and rows[-1] >= first:
                piece = self._far.piece(table, rows, first)
                tries.note(number, useful=piece is not None)
                if piece is not None:
                    yield number, piece

    def _apart(self, entered: IntakeRows, ordered: I64, first: int, *, tied: bool) -> Iterator[Piece]:
        """The replays of keys where something is out of order: of some keys together, of a large one in parts."""
        table = self._table
        place = np.full(len(table), -1, np.int64)
        place[ordered] = np.arange(len(ordered))
        edges = np.flatnonzero(np.diff(table.key[ordered], prepend=-1, append=-1))
        of_keys, left = [ordered[start:end] for start, end in pairwise(edges.tolist())], list[I64]()
        if self._constant is None or tied or len(entered.removed):
            left, of_keys = of_keys, []
        others = frozenset(entered.apart(table).tolist())
        for rows in of_keys:
            piece = None if int(table.key[rows[0]]) in others else self._once(rows, place, first)
            if piece is None:
                left.append(rows)
            else:
                yield piece
        if left:
            yield from self._variants(entered, left, place, first, tied=tied)

    def _once(self, rows: I64, place: I64, first: int) -> Piece | None:
        """The last variant of a key alone, where that and what each late record changes is known without the others.

        ``rows``: of the key, in order.
        """
        table, reach_ms = self._table, self.plan.retention_ms + 1
        held, added = rows[rows < first], np.sort(rows[rows >= first])
        arrivals = arrivals_of(held, added, place, table.number("clock_ms"), reach_ms)
        if arrivals is None or self._constant is None:
            return None
        found = self._constant.judged(table, self._make, arrivals, all_held=self.all_held)
        if found is None:
            return None
        piece = Piece.of([[Replay(arrivals.before, arrivals.final, None)]])
        return replace(piece, hits=found.hits, moving=found if found.runs else None)

    def _moved(self, found: KeyVerdicts, first: int, entered: IntakeRows) -> Iterator[ReplayedRows]:
        """What late records changed of lines of one key."""
        changes = changes_of(found, first, entered)
        settle(self._table, found.plan, found.key.arrivals.final, found.runs)
        if changes is not None:
            yield changes

    def _variants(
        self, entered: IntakeRows, of_keys: Sequence[I64], place: I64, first: int, *, tied: bool
    ) -> Iterator[Piece]:
        """The variants of keys, of each the rows in order."""
        table, reach_ms = self._table, self.plan.retention_ms + 1
        changes = entered.changes(table, table.key[[mine[0] for mine in of_keys]])
        replays, rows, repeats = list[list[Replay]](), 0, False
        for key_rows in of_keys:
            mine, of_key = changes[int(table.key[key_rows[0]])], list[Replay]()
            held = key_rows[key_rows < first]
            for each in replays_of(held, mine, place, table.number("clock_ms"), reach_ms, tied=tied):
                if rows > PIECE and len(of_key) > repeats:
                    yield Piece.of([*replays, of_key], repeats=repeats, ended=False)
                    replays, of_key, repeats = [], of_key[-1:], True
                    rows = of_key[0].size
                of_key.append(each)
                rows += each.size
            replays.append(of_key)
            if rows > PIECE:
                yield Piece.of(replays, repeats=repeats)
                replays, rows, repeats = [], 0, False
        if replays:
            yield Piece.of(replays, repeats=repeats)

    def nothing(self) -> KeyedBatch:
        """An empty batch of the table's columns: judged where only cross-key figures changed."""
        return self._table.batch(np.zeros(0, np.int64))

    def delta(self, batch: KeyedBatch, hits: Hits) -> Delta:  # noqa: ARG002 - what it added it has put by
        """What the last ``judge`` added and changed."""
        if self._delta is None:
            raise ValueError("nothing was judged")
        return self._delta

    def load(self, delta: Delta, lines: Lines) -> None:
        """Take in what was judged before, without judging it."""
        table, more = self._table, delta.more
        self._change(delta, lines)
        batch = replace(delta.batch, facts=facts_in(more), arrival=places_in(more))
        keys = table.numbers_of_keys(batch.key_bytes, batch.key_offsets)[batch.key_index]
        own = table.append(batch, np.arange(len(batch)), keys)
        table.live[own] = more["own_live"]
        for name in BITS:
            table.bits(name)[own] = remapped(more[f"own_{name}"], lines, table.lines)
        if not table.live.all():
            self._forget(batch, keys, own)

    def _forget(self, batch: KeyedBatch, keys: I32, own: I64) -> None:
        """The rows that were retracted and came again as ``own`` ones."""
        table = self._table
        for at, rows in table.find(keys, (batch.id_bytes, batch.id_offsets)).items():
            before = [row for row in rows if row < own[at] and not table.live[row]]
            table.key[[row for row in before if table.clock(row) == table.clock(int(own[at]))]] = -1

    def _change(self, delta: Delta, lines: Lines) -> None:
        """What became of rows of before; those that are held no more are passed over."""
        table, more = self._table, delta.more
        keys = table.numbers_of_keys(more["changed_key_bytes"], more["changed_key_offsets"])
        bits = {name: remapped(more[f"changed_{name}"], lines, table.lines) for name in BITS}
        clocks, live = more["changed_clock_ms"].tolist(), more["changed_live"]
        for at, rows in table.find(keys, (more["changed_id_bytes"], more["changed_id_offsets"])).items():
            for row in (row for row in rows if table.clock(row) == clocks[at]):
                table.live[row] = live[at]
                for name in BITS:
                    table.bits(name)[row] = bits[name][at]

    def alone(self, plan: KeySpacePlan, key: bytes) -> Inner:
        """The records of ``key`` in a store of their own, judged by ``plan``, of the same columns and entries."""
        store, rows = self._make(plan), self._table.rows_of(key)
        if len(rows):
            store.load(loaded(numbered(self._table.batch(rows))), ())
        return store

    def replan(self, plan: Plan) -> None:
        """Judge by ``plan`` from now on.

        Raises:
            ValueError: its number of entries is another: that takes another store.
        """
        if plan.filters != self.plan.filters:
            raise ValueError(f"a store of {self.plan.filters} entries cannot be judged by a plan of {plan.filters}")
        self.plan, self._constant, self._far = plan, ConstantVerdicts.of(plan), FarVerdicts.of(plan)
        self._far_tries = Tries()
        self._table.relined(lines_of(plan.judging))

    def evict(self, cutoff_ms: int) -> None:
        """Drop records with a clock at or before ``cutoff_ms``, once they are half of all."""
        kept: Bools = (self._table.number("clock_ms") > cutoff_ms) & (self._table.key >= 0)
        if len(kept) and 2 * int(kept.sum()) <= len(kept):
            self._table.keep(kept)
            self._far_tries = Tries()  # keys have other numbers

    def lacking(self, before_ms: int | None, now_ms: int, late_ms: int) -> dict[str, int]:
        """The rows that wait for a figure in vain, how many by rule version: those given up as time passed.

        One is given up when ``now_ms`` is more than ``late_ms`` past its clock and ``before_ms`` was not, or it came
        too late to be waited for.
        """
        table, found = self._table, dict[str, int]()
        lines = self.plan.waiting
        if not lines:
            return found
        due_ms, live = table.number("clock_ms") + late_ms, table.live & (table.key >= 0)
        came = np.arange(len(table)) >= len(table) - self._came
        past = live & (due_ms < now_ms) & (came | (due_ms >= (now_ms if before_ms is None else before_ms)))
        for number, _ in lines:
            rule_id, version = table.lines[number]
            count = int((table.bits("lacks")[past, number >> 3] >> (number & 7) & 1).sum())
            found |= {f"{rule_id}@{version}": count} if count else {}
        return found

    def due(self, passed_ms: int) -> None:
        """Nothing waits here."""

    def sizes(self) -> Sizes:
        """What is held."""
        return Sizes(self.records, self._table.keys, self._table.nbytes())


def _near(table: Table, rows: I64, first: int, reach_ms: int, entered: IntakeRows) -> I64:
    """Of ``rows`` those that new rows of their key reach back to; of keys where more changes, all."""
    keys, clock_ms = table.key[rows], table.number("clock_ms")[rows]
    new = rows >= first
    begin_ms = np.full(table.keys, np.iinfo(np.int64).max)
    np.minimum.at(begin_ms, keys[new], clock_ms[new] - reach_ms)
    begin_ms[entered.apart(table)] = np.iinfo(np.int64).min
    near: I64 = rows[clock_ms >= begin_ms[keys]]
    return near


def _out_of_order(table: Table, ordered: I64, first: int, entered: IntakeRows, *, tied: bool) -> Any:
    """Of each key whether anything but rows at its end comes, or these in another order; ``tied``: or at one time."""
    apart = np.zeros(table.keys, np.bool_)
    keys: I32 = table.key[ordered]
    together, new = keys[1:] == keys[:-1], ordered >= first
    back = together & new[:-1] & (~new[1:] | (ordered[1:] < ordered[:-1]))
    apart[keys[1:][back]] = True
    if tied:
        clock_ms = table.number("clock_ms")[ordered]
        apart[keys[1:][together & new[1:] & (clock_ms[1:] == clock_ms[:-1])]] = True
    apart[entered.apart(table)] = True
    return apart
