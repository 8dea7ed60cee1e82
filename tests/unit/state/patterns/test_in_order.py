"""On a log in order: what Elastic's EQL answers, by its published algorithm, and what strict matches must be."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import config

from crossline.plan.pattern_spaces import SequencePlan, StepPlan
from crossline.state.patterns.store import PatternSpaceState
from drawing import one_of_these

from .naive import Row, batch_of, expanded, pattern, plain, plan_of

ANY = 3
# As Python (test_builds.py), a hundred times slower, the first of the same examples are enough.
MANY = settings(
    max_examples=60 if config.DISABLE_JIT else 300, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
STEPS = st.lists(st.builds(StepPlan, st.integers(0, 2), st.sampled_from([1, 1, 2, 3])), min_size=2, max_size=3).map(
    tuple
)
WITHIN = st.sampled_from([0, 3, 10, 100])


@st.composite
def logs(draw: Any) -> list[Row]:
    now, rows = 0, []
    for number in range(draw(st.integers(0, 40))):
        now += draw(one_of_these(0, 1, 1, 3, 10))
        entries = draw(one_of_these((0,), (1,), (2,), (0, 1), (0, 1, 2), ()))
        rows.append(Row("k", f"n{number}", now, (*entries, ANY)))
    return rows


def found(line: SequencePlan, rows: list[Row]) -> list[tuple[str, ...]]:
    """The ids of each match, by the kernel."""
    plan = plan_of(line)
    return [hit.evidence for hit in plain(PatternSpaceState(plan).judge(batch_of(plan, rows)))]


def of_eql(line: SequencePlan, rows: list[Row]) -> list[tuple[str, ...]]:
    """The ids of each match, as EQL finds them.

    Of every stage all sequences are kept. A record takes the newest of those of the stage before, and the older ones
    go. It is passed on unless it would last too long, or a record of ``until`` came since its last one or was that one.
    """
    entries = expanded(line)
    stages: list[list[list[int]]] = [[] for _ in entries]
    untils: list[int] = []
    complete = []
    for number, row in enumerate(rows):
        for stage in reversed(range(len(entries))):
            if entries[stage] not in row.filters:
                continue
            sequence: list[int] = []
            if stage > 0:
                if not stages[stage - 1]:
                    continue
                sequence = stages[stage - 1][-1]
                stages[stage - 1].clear()
                if row.clock - rows[sequence[0]].clock > line.within_ms:
                    continue
                if untils and untils[-1] >= sequence[-1]:
                    continue
            stages[stage].append([*sequence, number])
        complete += [tuple(rows[i].id for i in sequence) for sequence in stages[-1]]
        stages[-1].clear()
        if line.until in row.filters:
            untils.append(number)
    return complete


@MANY
@given(STEPS, WITHIN, st.sampled_from([None, 0, 1, 2]), logs())
def test_as_eql(steps: tuple[StepPlan, ...], within: int, until: int | None, rows: list[Row]) -> None:
    line = pattern(steps=steps, within=within, until=until)
    assert found(line, rows) == of_eql(line, rows)


@MANY
@given(STEPS, WITHIN, logs())
def test_a_strict_match_is_any_run_of_records_that_fit(
    steps: tuple[StepPlan, ...], within: int, rows: list[Row]
) -> None:
    line = pattern(steps=steps, within=within, strict=ANY)
    entries = expanded(line)
    runs = [rows[i - len(entries) : i] for i in range(len(entries), len(rows) + 1)]
    assert found(line, rows) == [
        tuple(row.id for row in run)
        for run in runs
        if all(entry in row.filters for entry, row in zip(entries, run, strict=True))
        and run[-1].clock - run[0].clock <= within
    ]
