"""A joint run of several rule sets over the same records, which are read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.workbench.labels import Amounts
from crossline.backtest.workbench.rule_costs import RecordSpan, days_of, widen
from crossline.backtest.workbench.sample import BATCH_BYTES, Batch, SampleJudge, batches
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import nearest, one_of
from crossline.evaluate.alerts.current_alerts import current_states


@dataclass(slots=True)
class JointRun:
    """The result. ``alerts``: of each rule set. ``amounts``: by record id; None: no field was given."""

    alerts: list[list[dict[str, Any]]]
    spans: dict[str, RecordSpan] = field(default_factory=dict)
    amounts: dict[str, float] | None = None

    @property
    def records(self) -> int:
        """Records that were judged."""
        return sum(span.records for span in self.spans.values())

    @property
    def days(self) -> float:
        """The length of the records' event time, in days."""
        return days_of(self.spans)


def run_jointly(
    sets: Sequence[BacktestSpec],
    folder: Path,
    amount: str | None = None,
    far: Callable[[int, int], None] = lambda records, read: None,  # noqa: ARG005 - no progress by default
    see: Callable[[Batch], None] = lambda batch: None,  # noqa: ARG005 - no observer by default
) -> JointRun:
    """Judge the records by all of ``sets``, which have the same input, in this process.

    Args:
        sets: The rule sets.
        folder: For temporary files.
        amount: The numeric field to collect by record id; None: none.
        far: Called after each batch with the number of records, and the approximate number of bytes, so far.
        see: Called with each batch.

    Raises UsageError if an input matches no file or has no record, or ``amount`` is no numeric field of a stream.
    """
    history = sets[0].history
    amounts = Amounts(_checked(amount, history)) if amount is not None else None
    juries = [SampleJudge(judged) for judged in sets]
    found = JointRun([[] for _ in sets])
    for number, batch in enumerate(batches(history, folder), 1):
        widen(found.spans, batch)
        if amounts is not None:
            amounts.see(batch)
        for alerts, jury in zip(found.alerts, juries, strict=True):
            alerts.extend(jury.alerts(batch))
        see(batch)
        far(found.records, number * BATCH_BYTES)
    found.alerts[:] = map(current_states, found.alerts)
    if not found.spans:
        raise UsageError("the input has no record that could be read; expected records of the past")
    found.amounts = amounts.by_id() if amounts is not None else None
    return found


def _checked(amount: str, history: RecordedInput) -> str:
    """``amount``, if a stream has a numeric field of that name."""
    streams = [history.streams[name] for name in history.inputs]
    columns = {name: column for stream in streams for name, column in stream.own_columns.items()}
    numbers = [name for name, column in columns.items() if column.kind in {"integer", "number"} and not column.is_list]
    if amount not in numbers:
        hint = nearest(amount, numbers)
        text = f"--amount {amount}: found no such number in the streams; expected {one_of(numbers)}"
        raise UsageError(f"{text}; {hint}" if hint else text)
    return amount
