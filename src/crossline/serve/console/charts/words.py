"""Times, numbers and sentences of charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

from crossline.backtest.investigation.figure_bars import FigureBar, Unit
from crossline.backtest.investigation.timeline import Timeline
from crossline.basics.texts.money import amount_text, with_code

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_OPERATORS = {">=": "at least", ">": "over", "<=": "at most", "<": "under", "==": "exactly", "!=": "other than"}
_COUNTS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve")


@dataclass(frozen=True, slots=True)
class Wording:
    """How values are shown to one user.

    Attributes:
        zone: Times are shown in it.
        currency: Code of the amounts, "" if none is known.
        minor: How many minor units one has: 100 where ``15000`` is 150.00.
        noun: What a record is called: ``payments``.
    """

    zone: tzinfo = UTC
    currency: str = ""
    minor: int = 1
    noun: str = "records"

    def clock(self, at_ms: int, step_ms: int = 0) -> str:
        """A time of day, as exact as a step asks for: ``14:04``, ``14:04:16``, ``14:04:16.550``; of days the date."""
        at = datetime.fromtimestamp(at_ms // 1000, self.zone)
        if step_ms >= _DAY:
            return f"{at.day} {at:%b}"
        if step_ms >= _MINUTE:
            return f"{at:%H:%M}"
        return f"{at:%H:%M:%S}" if step_ms >= _SECOND else f"{at:%H:%M:%S}.{at_ms % 1000:03d}"

    def moment(self, at_ms: int, span_ms: float) -> str:
        """A time to the millisecond; with its day where it stands in a span of more than one."""
        day = f"{self.clock(at_ms, _DAY)} " if span_ms > _DAY else ""
        return f"{day}{self.clock(at_ms)}"

    def money(self, amount: float, *, code: bool = False) -> str:
        """An amount with the digits of its currency; where none is known with two, or none where it has none."""
        scaled = Decimal(str(amount)) / self.minor
        if not self.currency:
            return f"{scaled:,.{0 if self.minor == 1 and scaled == scaled.to_integral_value() else 2}f}"
        return with_code(scaled, self.currency) if code else amount_text(scaled, self.currency)

    def amounts(self, field: str) -> str:
        """What a column of amounts is called: by its currency; where there is none, or several, by its ``field``."""
        return self.currency or self.amount(field).replace("_", " ")

    def amount(self, field: str) -> str:
        """What an amount is called: by its ``field``, but where it is shown in another unit than it is kept in."""
        return "amount" if self.minor > 1 else field

    def value(self, value: float | None, unit: Unit) -> str:
        """A figure; a dash where it is missing."""
        if value is None:
            return "\u2013"
        if unit == "money":
            return self.money(value)
        if unit == "ms":
            return duration(value)
        return number(value) + (f" {unit}" if unit else "")

    def held(self, bar: FigureBar) -> str:
        """What a figure is held against: ``at least 6``."""
        return f"{_OPERATORS.get(bar.operator, bar.operator)} {self.value(bar.threshold, bar.unit)}"

    def conclusion(self, shown: Timeline) -> str:
        """What a person would conclude from a timeline, in one or two sentences."""
        if shown.travel is not None:
            trip = shown.travel
            speed = "" if trip.speed_kmh is None else f", {number(round(trip.speed_kmh))} km/h"
            limit = f"; the threshold is {number(trip.limit_kmh)} km/h"
            return f"{number(round(trip.distance_km))} km in {duration(trip.elapsed_ms)}{speed}{limit}."
        span = f"from {self.clock(shown.from_ms, _SECOND)} to {self.clock(shown.to_ms, _SECOND)}"
        first = f"{counted(len(shown.records))} {self.noun} {span}."
        if shown.shape == "sequence":
            steps = ", then ".join(f"{each.found} of {each.wanted} {each.name}" for each in shown.lanes)
            return f"{first} {steps}; the last one at {self.clock(shown.at_ms)}."
        if shown.shape == "absence" and shown.due_ms is not None:
            waited = f"within {duration(shown.due_ms - shown.at_ms)} of {shown.crossing}"
            return f"{first} What was due {waited}, until {self.clock(shown.due_ms)}, did not come."
        if shown.threshold is None:
            return f"{first} The rule fires at {self.clock(shown.at_ms)}."
        at = next((each.value for each in shown.steps if each.record_id == shown.crossing), None)
        name = shown.figure.replace("_", " ")
        return (
            f"{first} {name[:1].upper()}{name[1:]} reaches {self.value(at, shown.unit)} at {self.clock(shown.at_ms)}; "
            f"the threshold is {self.value(shown.threshold, shown.unit)}."
        )


def counted(count: int) -> str:
    """A count that begins a sentence: ``Six``, ``250``."""
    return _COUNTS[count] if count < len(_COUNTS) else f"{count:,}"


def number(value: float) -> str:
    """Thousands marked; real ones with as many digits as they bear."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(ms: float, units: int = 2) -> str:
    """A time in its largest ``units``: ``15 min``, ``6 min 39 s``, ``12 min 53.809 s`` where it is not whole seconds.

    Example:
        >>> duration(900_000), duration(399_000), duration(773_809), duration(18_000), duration(40)
        ('15 min', '6 min 39 s', '12 min 53.809 s', '18 s', '40 ms')
    """
    left = round(ms)
    if abs(left) < _SECOND:
        return f"{left} ms"
    sign, left = ("\u2212" if left < 0 else ""), abs(left)
    parts: list[str] = []
    for size, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if left >= size and len(parts) < units:
            parts.append(f"{left // size} {name}")
        left %= size
    if left and len(parts) < units and (units > 2 or not any(each.endswith((" d", " h")) for each in parts)):
        parts.append(f"{left / 1000:.3f}".rstrip("0").rstrip(".") + " s")
    return sign + " ".join(parts)


def short_id(value: str) -> str:
    """A long id, cut in its middle: 8 characters and 4."""
    return value if len(value) <= 16 else f"{value[:8]}…{value[-4:]}"


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
