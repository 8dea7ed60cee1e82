"""Local times by column are those of Python's datetime, in every zone, around every change of clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest import mock
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.formula import zones
from crossline.basics.formula.columns import FormulaProgram
from crossline.basics.formula.zones import zone_names

from .formulakit import formula

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HALF_HOUR_MS = 1_800_000


def found(zone: str, instants_ms: list[int]) -> list[tuple[int, int]]:
    program = FormulaProgram([formula(f"{name}(event_time, '{zone}')", "value") for name in ("hour", "weekday")])
    (hours, _), (days, _) = program.run({"event_time": pa.array(instants_ms)}, len(instants_ms))
    return list(zip(hours.tolist(), days.tolist(), strict=True))


def expected(zone: str, instants_ms: list[int]) -> list[tuple[int, int]]:
    shown = [(EPOCH + timedelta(milliseconds=ms)).astimezone(ZoneInfo(zone)) for ms in instants_ms]
    return [(each.hour, each.weekday()) for each in shown]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia"]
)
def test_every_half_hour_of_two_years(zone: str) -> None:
    for first in (1_293_840_000_000, 1_767_225_600_000):  # 2011, when Apia left a day out, and 2026
        instants_ms = list(range(first - 1, first + 366 * 86_400_000, HALF_HOUR_MS))
        assert found(zone, instants_ms) == expected(zone, instants_ms)


@given(
    st.sampled_from(zone_names()),
    st.lists(st.integers(-62_135_400_000_000, 253_402_100_000_000), min_size=1, max_size=40),
)
def test_any_zone_at_any_time(zone: str, instants_ms: list[int]) -> None:
    assert found(zone, instants_ms) == expected(zone, instants_ms)


def test_zones_are_known_by_name_only() -> None:
    assert {"Europe/Berlin", "UTC", "America/New_York"} <= set(zone_names())
    assert {"localtime", "Factory", "posixrules", "Europe", "../UTC", ""} & set(zone_names()) == set()


def test_many_rows_of_a_few_days_ask_for_few_instants() -> None:
    instants_ms = (1_774_569_600_000 + np.arange(20_000) * 40_000).tolist()  # nine days, one with a change of clocks
    zones._offset_ms.cache_clear()
    with mock.patch.object(zones, "local_time", wraps=zones.local_time) as asked:
        assert found("Europe/Berlin", instants_ms) == expected("Europe/Berlin", instants_ms)
    assert asked.call_count <= 2 * (10 + 24 * 60)


def test_a_change_of_clocks_within_a_minute() -> None:
    """Berlin gave up its own mean time, 53 min 28 s ahead, at the end of March 1893."""
    change_ms = -2_422_054_408_000
    instants_ms = [change_ms + 1_000 * second for second in range(-90, 90)]
    assert found("Europe/Berlin", instants_ms) == expected("Europe/Berlin", instants_ms)
    assert zones.offsets_ms(np.array([change_ms - 1, change_ms]), "Europe/Berlin").tolist() == [3_208_000, 3_600_000]
