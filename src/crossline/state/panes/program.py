"""A pane plan as flat arrays that compiled code walks: what panes keep, cursors, running aggregates, groups, lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.plan.spaces import AggregateSpec, PanePart, PaneSpacePlan, own_parts, parts_of
from crossline.programs.registry import aggregates
from crossline.state.panes import layout as at
from crossline.state.windows.emission.columns import cooldown_columns, cooldowns
from crossline.state.windows.line_bounds import bounds_of, wide_bounds
from crossline.state.windows.program import (
    INT_KINDS,
    all_output_aggregates,
    classes,
    judge_class,
    kind_of,
)

# Kinds of parts, in bytes of a pane.
P_COUNT, P_SUM_INT, P_SUM_FLOAT, P_LEAST_INT, P_LEAST_FLOAT, P_MOST_INT, P_MOST_FLOAT, P_FIRST, P_LAST = range(9)
P_CLOCK, P_STREAK, P_SQUARES_INT, P_SQUARES_FLOAT, P_CODES, P_BUCKETS_INT, P_BUCKETS_FLOAT, P_TALLY = range(9, 17)
_ITEMS = (at.A_COUNT, at.A_SUM, at.A_PAIR, *[at.A_VALUE] * 7, at.A_COUNT, *[at.SQUARES] * 2, *[at.A_SKETCH] * 4)
BYTES = tuple(item.bytes for item in _ITEMS)
SKETCHED = (P_CODES, P_BUCKETS_INT, P_BUCKETS_FLOAT, P_TALLY)
GROWING = (P_SUM_FLOAT, *SKETCHED)  # parts that may have a block of their own
RUNNING = (P_COUNT, P_SUM_INT, P_SUM_FLOAT, P_LEAST_INT, P_LEAST_FLOAT, P_MOST_INT, P_MOST_FLOAT)
# What panes may keep for an aggregate: its kind of integers, and of floats.
KEPT = {
    "count": (P_COUNT, P_COUNT),
    "sum": (P_SUM_INT, P_SUM_FLOAT),
    "min": (P_LEAST_INT, P_LEAST_FLOAT),
    "max": (P_MOST_INT, P_MOST_FLOAT),
    "first": (P_FIRST, P_FIRST),
    "last": (P_LAST, P_LAST),
    "since": (P_CLOCK, P_CLOCK),
    "streak": (P_STREAK, P_STREAK),
    "stddev": (P_SQUARES_INT, P_SQUARES_FLOAT),
    "distinct_count": (P_CODES, P_CODES),
    "quantile": (P_BUCKETS_INT, P_BUCKETS_FLOAT),
    "tally": (P_TALLY, P_TALLY),
}
MILLION = 1_000_000
CHUNK_BYTES = (64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class PaneProgram:
    """See ``compile_plan``.

    ``arrays`` and ``numbers``: arrays and scalars, by the names of their memory words. ``aggregate_figure`` and
    ``aggregate_kind``: as in ``windows.program.KernelProgram``, in the kernel's order of aggregates.
    """

    arrays: dict[str, Any]
    numbers: dict[str, int]
    aggregate_figure: I64
    aggregate_kind: I64


def part_kind(part: PanePart, plan: PaneSpacePlan) -> int:
    """What kind of part it is."""
    if part.aggregate not in KEPT:
        raise ValueError(f"panes keep no {part.aggregate}: there are {', '.join(KEPT)}")
    whole, real = KEPT[part.aggregate]
    floats = part.aggregate != "streak" and part.column >= 0 and plan.columns[part.column][1] == "float"
    return real if floats else whole


def compile_plan(plan: PaneSpacePlan) -> PaneProgram:
    """The arrays for ``plan``.

    Raises:
        ValueError: a figure of what its panes do not keep.
    """
    for group in plan.aggregates:
        aggregate = aggregates().get(group.aggregate)
        if aggregate is None or aggregate.pane is None:
            raise ValueError(f"{group.aggregate} is not defined on panes")
    kinds = [part_kind(part, plan) for part in plan.parts]
    missing = set(parts_of((plan.windows[g.window].filter, g) for g in plan.aggregates)) - set(plan.parts)
    if missing:
        raise ValueError(f"panes keep {plan.parts}, expected also {missing}: make its parts by parts_of")
    starts = np.cumsum([4, *(BYTES[kind] for kind in kinds)])
    pane_bytes = int(starts[-1])
    chunk = next(size for size in CHUNK_BYTES if (size - 8) // pane_bytes >= 3 or size == CHUNK_BYTES[-1])
    output_groups, groups = all_output_aggregates(plan), _Groups(plan)
    arrays = {
        "PART_KIND": kinds,
        "PART_FILTER": [part.filter for part in plan.parts],
        "PART_COL": [part.column for part in plan.parts],
        "PART_AT": starts[:-1],
        "PART_COUNT": [starts[plan.parts.index(PanePart("count", part.filter, -1))] for part in plan.parts],
        "WINDOW_FILTER": [c.filter for c in plan.windows],
        "COUNT_PART": [starts[plan.parts.index(PanePart("count", c.filter, -1))] for c in plan.windows],
        "WINDOW": [c.window_ms for c in plan.windows],
        "DELAY": [c.delay_ms for c in plan.windows],
        "EXACT": [-1 if c.resolution_ms else int(not c.left_closed) for c in plan.windows],
        "RIGHT_OPEN": [int(c.right_open) for c in plan.windows],
        "INCLUDE": [int(c.include_current) for c in plan.windows],
        **groups.arrays(),
        **_judging(plan),
        **_lines(plan, dict(zip((output_groups.index(g) for g in groups.order), groups.shown().tolist(), strict=True))),
    }
    numbers = {
        "RESOLUTION": plan.resolution_ms,
        "COLUMNS": len(plan.columns),
        "BITS_WORDS": 0 if plan.filters == 1 else -(-plan.filters // 64),
        "PANE_BYTES": pane_bytes,
        "CHUNK_PANES": max(1, min(15, (chunk - 8) // pane_bytes)),
        "PARTS": len(kinds),
        "SKETCHES": sum(kind in GROWING for kind in kinds),
        "N_WINDOWS": len(plan.windows),
        "ACCS": len(groups.accs),
        "CLASSES": len(classes(plan)),
        "JUDGING": len(plan.judging),
        "LINES": len(plan.lines),
        "COOLING": len(cooldown_columns(plan.judging)),
        "LINE_BYTES": -(-len(plan.judging) // 8),
        "ROW_FIGURES": len(output_groups),
    }
    order = np.array([output_groups.index(g) for g in groups.order], np.int64)
    flat = {k: v if isinstance(v, np.ndarray) else np.asarray(v, np.int64) for k, v in arrays.items()}
    return PaneProgram(flat, numbers, order, groups.shown())


class _Groups:
    """The groups in use by their cursors, and the running aggregates that they share."""

    def __init__(self, plan: PaneSpacePlan) -> None:
        self.plan = plan
        self.order = sorted(all_output_aggregates(plan), key=lambda g: (plan.aggregates[g].window, g))
        self.accs: list[tuple[int, int]] = []  # cursor, part
        needed = {(c, plan.parts.index(PanePart("count", each.filter, -1))) for c, each in enumerate(plan.windows)}
        needed |= {(plan.aggregates[g].window, part) for g in self.order for part in self.parts(plan.aggregates[g])}
        self.accs = sorted(each for each in needed if part_kind(plan.parts[each[1]], plan) in RUNNING)

    def parts(self, group: AggregateSpec) -> tuple[int, ...]:
        """The numbers of the parts that ``group`` is of; of a count those of what is counted."""
        entry = self.plan.windows[group.window].filter
        parts = own_parts(entry, group) or (PanePart("count", entry, -1),)
        return tuple(map(self.plan.parts.index, parts))

    def shown(self) -> I64:
        """The kinds of the figures, in order (see ``INT_KINDS``)."""
        return np.array([kind_of(self.plan, self.plan.aggregates[g]) for g in self.order], np.int64)

    def arrays(self) -> dict[str, Any]:
        """Of running aggregates and of groups."""
        mine = [self.plan.aggregates[g] for g in self.order]
        parts = [(*self.parts(group), -1)[:2] for group in mine]
        accs = [[self._acc(group.window, part) for part in two] for group, two in zip(mine, parts, strict=True)]
        cursors = np.arange(len(self.plan.windows) + 1)
        return {
            "ACC_AT": np.searchsorted([cursor for cursor, _ in self.accs], cursors),
            "ACC_KIND": [part_kind(self.plan.parts[part], self.plan) for _, part in self.accs],
            "ACC_PART": [part for _, part in self.accs],
            "AGGREGATE_AT": np.searchsorted([group.window for group in mine], cursors),
            "AGGREGATE_KIND": self.shown(),
            "AGGREGATE_ACC": [first for first, _ in accs],
            "AGGREGATE_ACC_2": [second for _, second in accs],
            "AGGREGATE_PART": [first for first, _ in parts],
            "AGGREGATE_PART_2": [second for _, second in parts],
            "AGGREGATE_RANK": [round(group.rank * MILLION) for group in mine],
        }

    def _acc(self, cursor: int, part: int) -> int:
        return self.accs.index((cursor, part)) if (cursor, part) in self.accs else -1


def _judging(plan: PaneSpacePlan) -> dict[str, Any]:
    number = classes(plan)
    rearmed = [line.rearm_in(plan) for line in plan.judging]
    return {
        "LINE_CLASS": [number[judge_class(plan, line)] for line in plan.judging],
        "EVERY": [int(line.emit_every) for line in plan.judging],
        "REARM": [reach_ms for reach_ms, _ in rearmed],
        "LINE_EXACT": [-1 if in_panes else 1 for _, in_panes in rearmed],
        **{name.upper(): array for name, array in cooldowns(plan.judging).items()},
    }


def shown_groups(plan: PaneSpacePlan) -> list[int]:
    """The groups whose windows hits show, for each line and formula."""
    return [*(line.aggregate for line in plan.lines), *(line.figures[0][2] for line in plan.formulas)]


def _lines(plan: PaneSpacePlan, kinds: dict[int, int]) -> dict[str, Any]:
    """What lines are held against; ``kinds``: of output figures, by number."""
    numbers, bounds = all_output_aggregates(plan), [bounds_of(line.operator, line.threshold) for line in plan.lines]
    lines = [numbers.index(line.aggregate) for line in plan.lines]
    return {
        "LINE_FIGURE": lines,
        "LINE_REAL": [int(kinds[number] not in INT_KINDS) for number in lines],
        "NEGATED": [int(line.operator == "!=") for line in plan.lines],
        "LOW_F": np.array([low for _, _, low, _ in bounds], np.float64),
        "HIGH_F": np.array([high for *_, high in bounds], np.float64),
        "LINE_WINDOW": [plan.aggregates[group].window for group in shown_groups(plan)],
        **{name.upper(): bound for name, bound in wide_bounds(bounds).items()},
    }
