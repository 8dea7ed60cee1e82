"""Times as people read them: in their zone, as exact as they must be, the other zone and the offset beside."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Moment:
    """A time. ``text``: as it stands there; ``iso``: for machines; ``full``: on focus."""

    text: str
    iso: str
    full: str


@dataclass(frozen=True, slots=True)
class Times:
    """Makes moments for one person. ``now_ms``: epoch milliseconds of the page.

    Example:
        >>> Times(ZoneInfo("UTC"), 1_795_500_256_550).moment(1_795_500_256_550).text
        '06:04:16'
    """

    zone: ZoneInfo
    now_ms: int

    def moment(self, at_ms: int, *, exact: bool = False) -> Moment:
        """Today its time, this year its day too, else the year. ``exact``: with milliseconds, where order matters."""
        at, now = self._at(at_ms), self._at(self.now_ms)
        clock = f"{at:%H:%M:%S}" + (f".{at_ms % 1000:03}" if exact else "")
        day = f"{at.day} {_MONTHS[at.month - 1]}"
        if at.date() == now.date():
            text = clock
        elif at.year == now.year:
            text = f"{day} {clock if exact else clock[:5]}"
        else:
            text = f"{day} {at.year} {clock if exact else clock[:5]}"
        utc = datetime.fromtimestamp(at_ms // 1000, UTC)
        iso = f"{utc:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
        offset = f"{at:%z}"
        return Moment(
            text,
            iso,
            f"{day} {at.year} {at:%H:%M:%S}.{at_ms % 1000:03} {self.zone.key} ({offset[:3]}:{offset[3:]}), {iso}",
        )

    def age(self, at_ms: int) -> str:
        """How long ago: ``3 m``, ``2 h``, ``5 d``."""
        minutes = max(0, self.now_ms - at_ms) // 60_000
        if minutes < 60:
            return f"{minutes} m"
        return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"

    def _at(self, ms: int) -> datetime:
        return datetime.fromtimestamp(ms // 1000, self.zone)
