"""Search for the nearest value at which a verdict turns: outwards from the present one, then down to one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from crossline.backtest.investigation.parameters import plain

LADDER = 44  # the farthest rung is 2 ** 43 steps away

# Whether the verdict turned at each of the values, in their order. Lazy: values after the last one read are not judged.
TurnTest = Callable[[Sequence[float]], Iterator[bool]]


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """The verdict turns at ``value``, and not yet at ``before``, one step nearer to the present value."""

    value: float
    before: float


@dataclass(frozen=True, slots=True)
class Range:
    """The values of a search: whole steps from the present one, between two limits.

    Attributes:
        present: The present value.
        step: The smallest change.
        least: The lower limit.
        most: The upper limit.
        fan: The number of values per run when the search narrows.
    """

    present: float
    step: Decimal
    least: float = float("-inf")
    most: float = float("inf")
    fan: int = 1

    def value(self, offset: int) -> float:
        """The value ``offset`` steps from the present one."""
        return plain(Decimal(repr(self.present)) + offset * self.step)

    def offsets(self, hints: Iterable[float], sign: int) -> list[int]:
        """The offsets of the hints on one side and of the powers of two, the nearest first."""
        found = {sign * 2**rung for rung in range(LADDER)}
        for hint in hints:
            steps = (Decimal(repr(hint)) - Decimal(repr(self.present))) / self.step
            found |= {int(steps.to_integral_value(each)) for each in (ROUND_FLOOR, ROUND_CEILING)}
        allowed = (each for each in found if each * sign > 0 and self.least <= self.value(each) <= self.most)
        return sorted(allowed, key=abs)


def nearest_turning_point(judge: TurnTest, within: Range, hints: Iterable[float]) -> TurningPoint | None:
    """The nearest turning point on either side; None if there is none.

    A verdict that turns and turns back between two tested values is missed. Hints are values from the records at which
    it may turn.
    """
    given = list(hints)
    found = [_on_one_side(judge, within, given, sign) for sign in (-1, 1)]
    turns = [each for each in found if each is not None]
    return min(turns, key=lambda each: abs(each.value - within.present), default=None)


def _on_one_side(judge: TurnTest, within: Range, hints: Sequence[float], sign: int) -> TurningPoint | None:
    offsets = within.offsets(hints, sign)
    last = 0
    for offset, turned in zip(offsets, judge([within.value(each) for each in offsets]), strict=False):
        if turned:
            return _narrowed(judge, within, last, offset)
        last = offset
    return None


def _narrowed(judge: TurnTest, within: Range, unturned: int, turned: int) -> TurningPoint:
    """Narrow the interval to two neighbours, of which one turns the verdict."""
    while abs(turned - unturned) > 1:
        parts = min(within.fan + 1, abs(turned - unturned))
        between = [unturned + (turned - unturned) * part // parts for part in range(1, parts)]
        found = list(dict.fromkeys(each for each in between if each not in {unturned, turned}))
        for offset, turns in zip(found, judge([within.value(each) for each in found]), strict=False):
            if turns:
                turned = offset
                break
            unturned = offset
    return TurningPoint(within.value(turned), within.value(unturned))
