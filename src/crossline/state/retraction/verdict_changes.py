"""What records out of order change under one key, from what the kernel of arrivals says of each line.

Each step that changes anything becomes two replays, of no more rows than differ: as it was before the step, and as it
is since. They are read as the variants of a key are (see ``replays``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from crossline.basics.bits import set_bits
from crossline.basics.values import I32, I64, U8
from crossline.plan.spaces import KeySpacePlan
from crossline.state.batch import Cause, EarlierHits, Hits, ReplayedRows, no_hits
from crossline.state.retraction import arrival_kernel as at
from crossline.state.retraction.constant_verdicts import KeyVerdicts
from crossline.state.retraction.intake import IntakeRows
from crossline.state.retraction.moving_lines import KeyRows, LineRun, entering, line_ranks
from crossline.state.retraction.table import Table
from crossline.state.windows.verdicts.record_emission import EVIDENCE_MAX


@dataclass(frozen=True, slots=True)
class _Listed:
    """Rows of replays at which a line is satisfied, or has a hit: one of each, by replay, place and line.

    ``replay``: twice the number of the step, and one more where it is as it is since. ``came``: how many rows had come.
    """

    replay: I64
    place: I64
    line: I32
    hits: Any
    whole: I64
    count: I64
    told: Any
    came: I64

    def only(self, mine: Any) -> _Listed:
        """Those that are ``mine``."""
        parts = (self.replay, self.place, self.line, self.hits, self.whole, self.count, self.told, self.came)
        return _Listed(*(each[mine] for each in parts))


def changes_of(found: KeyVerdicts, first: int, entered: IntakeRows) -> ReplayedRows | None:
    """What the steps of its runs change; None where they change nothing. ``first``: the first row of the batch."""
    key, plan, runs = found.key, found.plan, found.runs
    listed = _listed(plan, runs)
    if not len(listed.replay):
        return None
    steps = (listed.replay >> 1)[np.flatnonzero(np.diff(listed.replay >> 1, prepend=-1))]  # they are in order
    replay = np.searchsorted(steps, listed.replay >> 1) * 2 + (listed.replay & 1)
    pairs, row = np.unique(replay * np.int64(len(key.arrivals.order)) + listed.place, return_inverse=True)
    of_rows, places = np.divmod(pairs, np.int64(len(key.arrivals.order)))
    numbers, table = key.arrivals.final[places], key.table
    hits_at, causes = np.flatnonzero(listed.hits), _causes(runs[0], steps, key, entered)
    sat = np.zeros((len(numbers), 8 * table.bits("sat").shape[1]), np.uint8)
    sat[row, listed.line] = 1
    return ReplayedRows(
        rows=table.batch(numbers),
        hits=_hits(key, plan, listed.only(hits_at), row[hits_at], np.packbits(sat, axis=1, bitorder="little")),
        number=numbers,
        replay=of_rows.astype(np.int32),
        fresh=(numbers >= first) & (of_rows & 1).astype(np.bool_),
        emitted_before=listed.told[hits_at].astype(np.bool_),
        begins=np.array([cause is None for cause in causes], np.bool_),
        causes=causes,
        earlier=_earlier(key, runs, steps),
    )


def settle(table: Table, plan: KeySpacePlan, final: I64, runs: Sequence[LineRun]) -> None:
    """Write down what of the lines of ``runs`` stands at the ``final`` rows."""
    for run in runs:
        byte, shift = run.line >> 3, np.uint8(run.line & 7)
        marks = {"sat": at.HOLDS, "hit": at.HITS, "told": at.TOLD}
        if plan.lines[run.line].cooldown_ms:
            marks["emitted"] = at.HITS
        for name, field in marks.items():
            table.bits(name)[final, byte] |= run.rows[field].astype(np.uint8) << shift


def _listed(plan: KeySpacePlan, runs: Sequence[LineRun]) -> _Listed:
    """The entries of all lines, once as it was and once as it is."""
    parts = list[_Listed]()
    for run in runs:
        flags, step = run.entries[:, at.FLAGS], run.entries[:, at.STEP]
        for since, (held, hit, whole, count, came) in enumerate(
            (
                (at.HELD_BIT, at.HIT_BIT, at.WAS_WHOLE, at.WAS_COUNT, at.FIRST),
                (at.HOLDS_BIT, at.HITS_BIT, at.IS_WHOLE, at.IS_COUNT, at.END),
            )
        ):
            mine = np.flatnonzero(flags & held)
            parts.append(
                _Listed(
                    replay=step[mine] * 2 + since,
                    place=run.entries[mine, at.PLACE],
                    line=np.full(len(mine), run.line, np.int32),
                    hits=flags[mine] & hit,
                    whole=run.entries[mine, whole],
                    count=run.entries[mine, count],
                    told=flags[mine] & at.TOLD_BIT,
                    came=run.steps[step[mine], came],
                )
            )
    parted = [[getattr(each, name) for each in parts] for name in _Listed.__slots__]
    joined = _Listed(*(np.concatenate(each) for each in parted))
    rank = np.array(line_ranks(plan), np.int64)[joined.line]
    return joined.only(np.lexsort((rank, joined.place, joined.replay)))


def _causes(run: LineRun, steps: I64, key: KeyRows, entered: IntakeRows) -> list[Cause | None]:
    """Of each replay the record that changed it: none as it was, and where rows came in order."""
    first, late = run.steps[steps, at.FIRST], run.steps[steps, at.LATE] != 0
    own = iter(entered.own_causes(key.table, key.arrivals.came[first[late]]))
    return [cause for is_late in late.tolist() for cause in (None, next(own) if is_late else None)]


def _earlier(key: KeyRows, runs: Sequence[LineRun], steps: I64) -> EarlierHits:
    """Of each replay and line the last hit before what the step changes."""
    table, before = key.table, key.arrivals.before
    place, line = set_bits(table.bits("hit")[before])
    last = {int(of): int(before[at_place]) for at_place, of in zip(place, line, strict=True)}
    replays, lines, rows = list[I64](), list[I64](), list[I64]()
    for run in runs:
        alerts = run.steps[steps, at.ALERT]
        row = np.repeat(np.where(alerts >= 0, key.arrivals.final[alerts], last.get(run.line, -1)), 2)
        found = np.flatnonzero(row >= 0)
        replays.append(found)
        lines.append(np.full(len(found), run.line, np.int64))
        rows.append(row[found])
    numbers = np.concatenate(rows)
    return EarlierHits(
        np.concatenate(replays),
        np.concatenate(lines),
        numbers,
        table.number("clock_ms")[numbers],
        table.id_of,
    )


def _hits(key: KeyRows, plan: KeySpacePlan, listed: _Listed, row: I64, sat: U8) -> Hits:
    """The ``listed`` hits, at ``row``s of the replays, as the kernel of windows would give them."""
    none = no_hits(np.zeros(len(sat), np.bool_))
    clock_ms = key.table.number("clock_ms")[key.arrivals.final[listed.place]]
    aggregates = [plan.aggregates[each.aggregate] for each in plan.lines]
    window_ms = np.array([plan.windows[each.window].window_ms for each in aggregates], np.int64)
    mean = np.array([each.aggregate == "avg" for each in aggregates], np.bool_)[listed.line]
    # A window only gains records: of one line, at one place, it is the same where it has as many.
    windows = np.lexsort((listed.count, listed.line, listed.place))
    parts = (listed.place[windows], listed.line[windows], listed.count[windows])
    other = np.any([np.diff(each, prepend=-1) != 0 for each in parts], axis=0)
    same = np.empty(len(windows), np.int64)
    same[windows] = windows[other][np.cumsum(other) - 1]
    distinct = np.sort(windows[other])
    evidence, offsets = _Evidence.of(key, plan, listed.only(distinct)), np.zeros(len(windows) + 1, np.int64)
    offsets[distinct + 1] = np.diff(evidence.offsets)
    np.cumsum(offsets, out=offsets)
    id_bytes, id_offsets = key.table.ids_of(evidence.rows)
    return Hits(
        line=listed.line,
        row=row.astype(np.int32),
        is_int=~mean,
        value_i=np.where(mean, 0, listed.whole),
        value_up=np.zeros(len(row), np.int64),
        value_f=np.where(mean, listed.whole / np.maximum(listed.count, 1), 0.0),
        count=listed.count,
        window_start_ms=clock_ms - window_ms[listed.line],
        window_end_ms=clock_ms,
        evidence_offsets=offsets,
        evidence_id_bytes=id_bytes,
        evidence_id_offsets=id_offsets,
        evidence_clock_ms=evidence.clock_ms,
        evidence_value_i=evidence.values,
        evidence_value_f=np.zeros(len(evidence.values), np.float64),
        duplicates=none.duplicates,
        retained=np.arange(len(sat), dtype=np.int32),
        sat=sat,
        emitted_line=none.emitted_line,
        emitted_row=none.emitted_row,
        evidence_of=evidence.number,
        same=same,
    )


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The records that hits rest on, one hit behind the other: the ``number`` of each among ``rows`` (of the table).

    ``values``: of the column that the line of the hit is about.
    """

    offsets: I64
    number: I64
    rows: I64
    clock_ms: I64
    values: I64

    @classmethod
    def of(cls, key: KeyRows, plan: KeySpacePlan, listed: _Listed) -> Self:
        """That of the hits ``listed``."""
        arrivals, aggregates = key.arrivals, [plan.aggregates[each.aggregate] for each in plan.lines]
        ahead, clock_ms = len(arrivals.before), key.table.number("clock_ms")
        rows = np.append(arrivals.before, arrivals.final)
        came = np.append(np.full(ahead, -1, np.int64), arrivals.order)
        # Of the lines that have hits alone: a key may have a million rows, and its plan a thousand lines.
        lines, line_of = np.unique(listed.line, return_inverse=True)
        windows = [plan.windows[aggregates[number].window] for number in lines.tolist()]
        masks = {number: _entering_in_order(key, number) for number in {each.filter for each in windows}}
        enters = np.array([masks[each.filter] for each in windows], np.uint8).reshape(len(windows), len(rows))
        hits = np.zeros((len(listed.place), at.EVIDENCE_FIELDS), np.int64)
        hits[:, at.END_ROW], hits[:, at.CAME_MAX], hits[:, at.LINE] = ahead + listed.place, listed.came, line_of
        hits[:, at.WANTED] = np.minimum(listed.count, EVIDENCE_MAX)
        of_windows = [(each.right_open, each.include_current) for each in windows]
        spans = np.array(of_windows, np.int64).reshape(len(windows), 2)
        found, offsets = at.evidence(clock_ms[rows], came, enters, spans, hits)
        values, line = np.zeros(len(found), np.int64), np.repeat(listed.line, np.diff(offsets))
        for number in lines.tolist():
            mine, column = line == number, aggregates[number].column
            if column >= 0:
                values[mine] = _in_order(key, column, plan)[found[mine]]
        used = np.zeros(len(rows), np.bool_)
        used[found] = True
        return cls(offsets, (np.cumsum(used) - 1)[found], rows[used], clock_ms[rows][found], values)


def _entering_in_order(key: KeyRows, number: int) -> Any:
    """The rows that enter filter ``number``, of those before and those that came, in order."""
    return np.append(entering(key.before, number), entering(key.came, number)[key.arrivals.order])


def _in_order(key: KeyRows, column: int, plan: KeySpacePlan) -> Any:
    """The integers of a column, of the rows before and those that came, in order."""
    if plan.columns[column][1] != "int":
        return np.zeros(len(key.before) + len(key.came), np.int64)
    return np.append(key.before.values[column], key.came.values[column][key.arrivals.order])
