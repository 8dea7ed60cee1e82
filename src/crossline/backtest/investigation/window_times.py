"""The clock of a rule, and the lengths of a window at which a record enters or leaves it."""

from __future__ import annotations

from collections.abc import Sequence

from crossline.backtest.investigation.figure_bars import figures_of
from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.variant_runner import VariantRunner
from crossline.backtest.record_search import event_ms as named_ms


def clock_ms(runner: VariantRunner, record: KeyRecord) -> int:
    """The time of a record on the rule's clock, epoch ms."""
    rule = runner.rule
    if (rule.time_mode or runner.setting.defaults.time_mode) == "processing_time":
        return record.ingest_ms
    spec = runner.setting.history.streams[record.stream]
    clock = next(
        (
            time
            for name, time in spec.clocks.items()
            if rule.timestamp_field is not None
            and rule.timestamp_field in {name, time.field}
            and rule.timestamp_field != spec.event_time.field
        ),
        None,
    )
    found = named_ms(clock, record.fields) if clock is not None else None
    return record.event_ms if found is None else found


def window_hints(runner: VariantRunner, records: Sequence[KeyRecord]) -> list[float]:
    """Lengths at which a window that ends at the crossing record, or at one before it, gains another record."""
    program = runner.program()
    formula = program.formula
    figures = program.figures if formula is None else figures_of(program, formula).values()
    delays = {each.window.delay_ms for each in figures} or {0}
    at_ms = clock_ms(runner, next(each for each in records if each.record_id == runner.record_id))
    ages = {at_ms - clock_ms(runner, each) - delay for each in records for delay in delays}
    return sorted(float(length) for age in ages if age >= 0 for length in (age - 1, age, age + 1) if length >= 1)
