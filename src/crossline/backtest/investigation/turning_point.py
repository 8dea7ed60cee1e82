"""The nearest value at which a verdict turns: looked for outwards from the present one, then narrowed to one step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from crossline.backtest.investigation.parameters import plain

LADDER = 44  # the farthest rung is 2 ** 43 steps away

# Whether the verdict turned at each of the values, in their order; it may be asked for no more than is looked at.
TurnTest = Callable[[Sequence[float]], Iterator[bool]]


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """Where the verdict turns: at ``value``, and not yet one step nearer to the present one, at ``before``."""

    value: float
    before: float


@dataclass(frozen=True, slots=True)
class Range:
    """The values that may be tried: whole steps from the present one, between two limits.

    Attributes:
        present: The value as it is.
        step: The smallest change.
        least: No value below it is tried.
        most: No value above it is tried.
        fan: How many values are judged at once where the search narrows down.
    """

    present: float
    step: Decimal
    least: float = float("-inf")
    most: float = float("inf")
    fan: int = 1

    def value(self, offset: int) -> float:
        """So many steps from the present one."""
        return plain(Decimal(repr(self.present)) + offset * self.step)

    def offsets(self, hints: Iterable[float], sign: int) -> list[int]:
        """Steps to the hints on one side and to the rungs of the ladder, the nearest first."""
        found = {sign * 2**rung for rung in range(LADDER)}
        for hint in hints:
            steps = (Decimal(repr(hint)) - Decimal(repr(self.present))) / self.step
            found |= {int(steps.to_integral_value(each)) for each in (ROUND_FLOOR, ROUND_CEILING)}
        allowed = (each for each in found if each * sign > 0 and self.least <= self.value(each) <= self.most)
        return sorted(allowed, key=abs)


def nearest_turning_point(judge: TurnTest, within: Range, hints: Iterable[float]) -> TurningPoint | None:
    """The nearest turn on either side; None where none is met.

    Between two values that are looked at a verdict that turns and turns back is not seen; hints are what the records
    say about where it may turn.
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
    """Down to two neighbours of which one turns it."""
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
