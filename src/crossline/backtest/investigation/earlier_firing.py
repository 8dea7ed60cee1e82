"""The nearest change of a rule by which it would have fired sooner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from crossline.backtest.investigation.key_records import KeyRecord
from crossline.backtest.investigation.outcome_text import duration_text
from crossline.backtest.investigation.parameters import Knob
from crossline.backtest.investigation.turning_point import Judge, Range, Turn, nearest_turn
from crossline.backtest.investigation.variant_runner import Bench

FAN = 48


def sooner_turn(
    bench: Bench,
    knobs: Sequence[Knob],
    records: Sequence[KeyRecord],
    batch: Any,
    standing: Mapping[str, Any],
    range_of: Callable[[Knob], Range],
    hints_of: Callable[[Knob], Sequence[float]],
) -> tuple[Knob, Turn, str] | None:
    """The smallest change, as a share of what is, with the record at which it fires then; None where there is none.

    Sooner is a record of the key that came before the crossing one and after the last at which the verdict held.
    """
    earlier = _before(records, bench.record_id, standing)
    if not earlier:
        return None
    wanted = [each.record_id for each in earlier]
    best: tuple[float, Knob, Turn] | None = None
    for knob in knobs:
        turn = nearest_turn(_judge(bench, knob, batch, wanted), range_of(knob), hints_of(knob))
        if turn is not None:
            size = abs(turn.value - knob.present) / max(abs(knob.present), 1e-9)
            if best is None or size < best[0]:
                best = size, knob, turn
    if best is None:
        return None
    _, knob, turn = best
    held = bench.holds(batch, knob.put(turn.value))
    first = next(each for each in earlier if each.record_id in held)
    crossing = next(each for each in records if each.record_id == bench.record_id)
    said = f"at {first.record_id}, {duration_text(crossing.event_ms - first.event_ms)} earlier"
    return knob, turn, said


def _before(records: Sequence[KeyRecord], record_id: str, standing: Mapping[str, Any]) -> list[KeyRecord]:
    place = next(number for number, each in enumerate(records) if each.record_id == record_id)
    since = max((number + 1 for number, each in enumerate(records[:place]) if each.record_id in standing), default=0)
    return list(records[since:place])


def _judge(bench: Bench, knob: Knob, batch: Any, wanted: Sequence[str]) -> Judge:
    def judge(values: Sequence[float]) -> Iterator[bool]:
        for start in range(0, len(values), FAN):
            rules = [knob.put(each) for each in values[start : start + FAN]]
            held = iter(bench.replays([each for each in rules if each is not None], batch))
            found = [None if each is None else next(held) for each in rules]
            yield from [each is not None and any(name in each for name in wanted) for each in found]

    return judge
