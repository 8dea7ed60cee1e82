"""A plan of patterns as flat arrays that compiled code walks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crossline.basics.values import I64
from crossline.plan.pattern_spaces import PatternSpacePlan, SequencePlan
from crossline.plan.spaces import KeySpacePlan
from crossline.state.memory import layout as at
from crossline.state.windows.emission.columns import cooldown_columns, cooldowns
from crossline.state.windows.memory_map import MemoryMap
from crossline.state.windows.program import compile_plan

I64_MIN, I64_MAX = -(2**63), 2**63 - 1


def check(plan: PatternSpacePlan) -> None:
    """Raises ValueError where a pattern has nothing to take, names an entry that is none, or outlasts the plan."""
    for line in plan.lines:
        text = f"pattern {line.rule_id} version {line.version}"
        if not line.steps or any(step.times < 1 for step in line.steps):
            raise ValueError(f"{text} has no step, or one that no record takes")
        named = [*(step.filter for step in line.steps), *(e for e in (line.until, line.strict) if e is not None)]
        if not all(0 <= entry < plan.filters for entry in named):
            raise ValueError(f"{text} names an entry beyond the {plan.filters} that there are")
        if not 0 <= line.within_ms <= plan.retention_ms:
            raise ValueError(f"{text} is within {line.within_ms} ms, not from 0 to the plan's {plan.retention_ms}")


def entries_of(line: SequencePlan) -> list[int]:
    """The filter of each step; a step with a count of n has n entries."""
    return [step.filter for step in line.steps for _ in range(step.times)]


def waits(plan: PatternSpacePlan) -> list[int]:
    """Where each pattern's places to wait begin, and where the last one's end; as many as its steps but one."""
    return _starts(len(entries_of(line)) - 1 for line in plan.lines)


def memory_of(plan: PatternSpacePlan) -> MemoryMap:
    """Memory for records without values and bits, and all that the kernel reads of ``plan``.

    Raises:
        ValueError: see ``check``.
    """
    check(plan)
    lines = plan.lines
    steps = [entries_of(line) for line in lines]
    cooling, columns = cooldowns(lines), cooldown_columns(lines)
    counts: dict[int, int] = {
        at.LINES: len(lines),
        at.JUDGING: len(lines),
        at.STEPS: sum(map(len, steps)),
        at.MATCH_STATES: waits(plan)[-1],
        at.COOLING: len(columns),
        at.BITS_BYTES: (plan.filters + 7) // 8,
        at.LINE_BYTES: (len(lines) + 7) // 8 if columns else 0,  # what is held back by a cooldown still decides
    }
    records = KeySpacePlan((), plan.filters, (), (), (), plan.retention_ms)
    memory = MemoryMap(records, compile_plan(records), counts)
    memory.words[at.FREE_MATCH_STEP] = -1
    for name, array in (
        (at.STEP_AT, _longs(_starts(map(len, steps)))),
        (at.STEP_FILTER, _longs(entry for each in steps for entry in each)),
        (at.WITHIN, _longs(line.within_ms for line in lines)),
        (at.UNTIL_FILTER, _longs(-1 if line.until is None else line.until for line in lines)),
        (at.STRICT_FILTER, _longs(-1 if line.strict is None else line.strict for line in lines)),
        (at.CONCERNS, _concerns(plan)),
        (at.PROBES, _longs(line.probes for line in lines)),
        (at.CLASS_LATE, _longs(map(_latest, lines))),
        (at.SPAN_AT, _longs(_starts(len(line.spans) for line in lines))),
        (at.SPAN_FROM, _longs(_clip(start) for line in lines for start, _ in line.spans)),
        (at.SPAN_UNTIL, _longs(_clip(end) for line in lines for _, end in line.spans)),
        (at.COOLDOWN, cooling["cooldown"]),
        (at.COOLDOWN_COL, cooling["cooldown_col"]),
    ):
        memory.keep(name, array)
    return memory


def _latest(line: SequencePlan) -> int:
    """The latest lateness that it judges."""
    return I64_MAX if line.judge_lateness_ms is None else _clip(line.judge_lateness_ms)


def _concerns(plan: PatternSpacePlan) -> Any:
    """Of each pattern the entries that it names, as bits."""
    flags = np.zeros((len(plan.lines), (plan.filters + 7) // 8 * 8), np.bool_)
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
