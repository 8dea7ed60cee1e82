"""The nearest change of a rule with which it fires earlier."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.outcome_text import duration_text
from crossline.backtest.investigation.parameters import Parameter
from crossline.backtest.investigation.turning_point import Range, TurningPoint, TurnTest, nearest_turning_point
from crossline.backtest.investigation.variant_runner import VariantRunner

FAN = 48


def find_earlier_firing(
    runner: VariantRunner,
    parameters: Sequence[Parameter],
    records: Sequence[KeyRecord],
    batch: Any,
    present_hits: Mapping[str, Any],
    range_of: Callable[[Parameter], Range],
    hints_of: Callable[[Parameter], Sequence[float]],
) -> tuple[Parameter, TurningPoint, str] | None:
    """The smallest change, as a share of the present value, and the record at which the rule then fires; None: none.

    Earlier means: at a record of the key before the crossing one and after the last one at which the verdict held.
    """
    earlier = _before(records, runner.record_id, present_hits)
    if not earlier:
        return None
    wanted = [each.record_id for each in earlier]
    best: tuple[float, Parameter, TurningPoint] | None = None
    for parameter in parameters:
        turn = nearest_turning_point(_judge(runner, parameter, batch, wanted), range_of(parameter), hints_of(parameter))
        if turn is not None:
            size = abs(turn.value - parameter.present) / max(abs(parameter.present), 1e-9)
            if best is None or size < best[0]:
                best = size, parameter, turn
    if best is None:
        return None
    _, parameter, turn = best
    held = runner.holds(batch, parameter.with_value(turn.value))
    first = next(each for each in earlier if each.record_id in held)
    crossing = next(each for each in records if each.record_id == runner.record_id)
    text = f"at {first.record_id}, {duration_text(crossing.event_ms - first.event_ms)} earlier"
    return parameter, turn, text


def _before(records: Sequence[KeyRecord], record_id: str, present_hits: Mapping[str, Any]) -> list[KeyRecord]:
    place = next(number for number, each in enumerate(records) if each.record_id == record_id)
    since = max(
        (number + 1 for number, each in enumerate(records[:place]) if each.record_id in present_hits), default=0
    )
    return list(records[since:place])


def _judge(runner: VariantRunner, parameter: Parameter, batch: Any, wanted: Sequence[str]) -> TurnTest:
    def judge(values: Sequence[float]) -> Iterator[bool]:
        for start in range(0, len(values), FAN):
            rules = [parameter.with_value(each) for each in values[start : start + FAN]]
            held = iter(runner.replays([each for each in rules if each is not None], batch))
            found = [None if each is None else next(held) for each in rules]
            yield from [each is not None and any(name in each for name in wanted) for each in found]

    return judge
