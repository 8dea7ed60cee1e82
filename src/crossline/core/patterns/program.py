"""A plan of patterns as flat arrays that compiled code walks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crossline.core.basics.values import I64
from crossline.core.plan.spaces import KeySpacePlan, Pattern, PatternSpacePlan
from crossline.core.windows.memory import layout as at
from crossline.core.windows.memory_map import MemoryMap
from crossline.core.windows.program import compile_plan

I64_MIN, I64_MAX = -(2**63), 2**63 - 1

SpanSet = tuple[tuple[tuple[int, int], ...], int]


def check(plan: PatternSpacePlan) -> None:
    """Raises ValueError where a pattern has nothing to take, names an entry that is none, or outlasts the plan."""
    for line in plan.lines:
        said = f"pattern {line.rule_id} version {line.version}"
        if not line.steps or any(step.times < 1 for step in line.steps):
            raise ValueError(f"{said} has no step, or one that no record takes")
        named = [*(step.entry for step in line.steps), *(e for e in (line.until, line.strict) if e is not None)]
        if not all(0 <= entry < plan.entries for entry in named):
            raise ValueError(f"{said} names an entry beyond the {plan.entries} that there are")
        if not 0 <= line.within_ms <= plan.retention_ms:
            raise ValueError(f"{said} is within {line.within_ms} ms, not from 0 to the plan's {plan.retention_ms}")


def entries_of(line: Pattern) -> list[int]:
    """The entry of each step, one that is to be taken n times n times over."""
    return [step.entry for step in line.steps for _ in range(step.times)]


def waits(plan: PatternSpacePlan) -> list[int]:
    """Where each pattern's places to wait begin, and where the last one's end; as many as its steps but one."""
    return _starts(len(entries_of(line)) - 1 for line in plan.lines)


def memory_of(plan: PatternSpacePlan) -> MemoryMap:
    """Memory for records without values and bits, and all that the kernel reads of ``plan``.

    Raises:
        ValueError: see ``check``.
    """
    check(plan)
    sets = list(dict.fromkeys(map(_span_set, plan.lines)))
    steps = [entries_of(line) for line in plan.lines]
    counts = {
        at.LINES: len(plan.lines),
        at.STEPS: sum(map(len, steps)),
        at.WAITS: waits(plan)[-1],
        at.SPAN_SETS: len(sets),
        at.BITS_BYTES: 0,
    }
    records = KeySpacePlan((), plan.entries, (), (), (), plan.retention_ms)
    memory = MemoryMap(records, compile_plan(records), counts)
    memory.words[at.FREE_TAKEN] = -1
    for name, array in (
        (at.STEP_AT, _longs(_starts(map(len, steps)))),
        (at.STEP_ENTRY, _longs(entry for each in steps for entry in each)),
        (at.WITHIN, _longs(line.within_ms for line in plan.lines)),
        (at.UNTIL_ENTRY, _longs(-1 if line.until is None else line.until for line in plan.lines)),
        (at.STRICT_ENTRY, _longs(-1 if line.strict is None else line.strict for line in plan.lines)),
        (at.CONCERNS, _concerns(plan)),
        (at.LINE_CLASS, _longs(sets.index(_span_set(line)) for line in plan.lines)),
        (at.SPAN_AT, _longs(_starts(len(spans) for spans, _ in sets))),
        (at.SPAN_FROM, _longs(start for spans, _ in sets for start, _ in spans)),
        (at.SPAN_UNTIL, _longs(end for spans, _ in sets for _, end in spans)),
        (at.CLASS_LATE, _longs(late for _, late in sets)),
        (at.ACTIVE, np.zeros(len(sets), np.uint8)),
    ):
        memory.keep(name, array)
    return memory


def _span_set(line: Pattern) -> SpanSet:
    """What decides which records a pattern judges: spans of ingest time, and the latest lateness."""
    late = I64_MAX if line.judge_lateness_ms is None else line.judge_lateness_ms
    return tuple((_clip(start), _clip(end)) for start, end in line.spans), _clip(late)


def _concerns(plan: PatternSpacePlan) -> Any:
    """Of each pattern the entries that it names, as bits."""
    flags = np.zeros((len(plan.lines), (plan.entries + 7) // 8 * 8), np.bool_)
    for number, line in enumerate(plan.lines):
        flags[number, [*entries_of(line), *(e for e in (line.until, line.strict) if e is not None)]] = True
    return np.packbits(flags, axis=1, bitorder="little")


def _starts(counts: Iterable[int]) -> list[int]:
    """Where parts of these lengths begin, laid end to end; and the end of the last."""
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts


def _longs(values: Iterable[int]) -> I64:
    return np.array(list(values), dtype=np.int64)


def _clip(value: int) -> int:
    return max(I64_MIN, min(I64_MAX, value))
