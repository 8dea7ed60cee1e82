"""Time zones by name, and how far their clocks are from UTC at an instant.

Their rules are the machine's, or else those of the package tzdata: two machines that know different ones may differ.
"""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from crossline.basics.times import YEAR_1_MS, YEAR_10000_MS

if TYPE_CHECKING:
    from crossline.basics.values import I64

DAY_MS = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# Names that mean something else on each machine, or nothing.
_NO_ZONES = {"Factory", "localtime", "posixrules"}


@cache
def zone_names() -> tuple[str, ...]:
    """All zones there are."""
    return tuple(sorted(zoneinfo.available_timezones() - _NO_ZONES))


@lru_cache(maxsize=64)
def zone(name: str) -> tzinfo:
    """The zone called ``name``, one of ``zone_names()``."""
    return zoneinfo.ZoneInfo(name)


def local_time(ms: int, where: tzinfo) -> datetime | None:
    """What a clock shows at ``ms`` of the epoch; None outside the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(where)
    except OverflowError:
        return None


def offsets_ms(instants_ms: I64, name: str, blocks_ms: tuple[int, ...] = (DAY_MS, 60_000, 1)) -> I64:
    """How far clocks of the zone are ahead of UTC, for instants (int64, ms) more than two days within years 1 to 9999.

    No zone changes its clocks twice within a day: where they show the same at both ends of a day, they do all day long.
    A day on which they do not is looked at by the minute, and such a minute by the millisecond.
    """
    import numpy as np  # noqa: PLC0415 - for columns: what reads rules has none, and need not wait
    import pyarrow as pa  # noqa: PLC0415 - as above

    block_ms, *finer_ms = blocks_ms
    blocks = pa.array(instants_ms // block_ms).dictionary_encode()
    starts_ms = [block * block_ms for block in blocks.dictionary.to_pylist()]
    at_start: I64 = np.array([_offset_ms(name, ms) for ms in starts_ms], dtype=np.int64)
    at_end: I64 = np.array([_offset_ms(name, ms + block_ms - 1) for ms in starts_ms], dtype=np.int64)
    which = blocks.indices.to_numpy()
    offsets: I64 = at_start[which]
    rows = np.flatnonzero((at_start != at_end)[which])
    if len(rows):
        offsets[rows] = offsets_ms(instants_ms[rows], name, tuple(finer_ms))
    return offsets


def near_the_ends(instants_ms: I64) -> I64:
    """The rows whose instants are not more than two days within years 1 to 9999."""
    import numpy as np  # noqa: PLC0415 - as above

    inside = (instants_ms >= YEAR_1_MS + 2 * DAY_MS) & (instants_ms < YEAR_10000_MS - 2 * DAY_MS)
    return np.flatnonzero(~inside)


@lru_cache(maxsize=65_536)
def _offset_ms(name: str, ms: int) -> int:
    shown = local_time(ms, zone(name))
    offset = shown.utcoffset() if shown is not None else None
    if offset is None:
        raise ValueError(f"{ms} is not more than two days within years 1 to 9999")
    return offset // _MILLISECOND
