from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.times import format_duration, format_instant, parse_duration_ms, parse_instant_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("45s", 45_000),
        ("10m", 600_000),
        ("200ms", 200),
        ("1h", 3_600_000),
        ("2 min", 120_000),
        ("24h", 86_400_000),
        ("1 day", 86_400_000),
        ("2 Hours", 7_200_000),
        ("1h 30m", 5_400_000),
        ("0.5s", 500),
        (" 3 seconds ", 3000),
        ("0s", 0),
    ],
)
def test_reads_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "  ",
        "10",
        "10 x",
        "m",
        "-5s",
        "1.5ms",
        "10m!",
        "1_000s",
        "99999999d",
        None,
        True,
        10,
        [],
        "1e3s",
        "\u0661\u0660m",
        "1\u0660m",
        "\uff11s",
    ],
)
def test_refuses_what_is_no_duration(bad: object) -> None:
    with pytest.raises(ValueError, match=r"duration|milliseconds|100 years"):
        parse_duration_ms(bad)


def test_bare_numbers_are_seconds_where_allowed() -> None:
    assert parse_duration_ms(3, bare_seconds=True) == 3000
    assert parse_duration_ms(0.1, bare_seconds=True) == 100
    assert parse_duration_ms("3s", bare_seconds=True) == 3000
    for bad in (-1, float("nan"), float("inf"), 0.0001, True, "3"):
        with pytest.raises(ValueError, match=r"duration|milliseconds"):
            parse_duration_ms(bad, bare_seconds=True)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (60_000, "60 s"),
        (600_000, "10 min"),
        (86_400_000, "24 h"),
        (172_800_000, "2 d"),
        (200, "200 ms"),
        (1000, "1 s"),
        (1500, "1500 ms"),
        (0, "0 s"),
        (90_000, "90 s"),
        (3_600_000, "60 min"),
        (-5000, "-5 s"),
    ],
)
def test_writes_durations_as_people_do(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@given(st.integers(0, 10**12))
def test_what_is_written_reads_back(ms: int) -> None:
    assert parse_duration_ms(format_duration(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-01T00:00:07.120Z", 1_767_225_607_120),
        ("2026-01-01T01:00:07.120+01:00", 1_767_225_607_120),
        ("2026-01-01 00:00:07.1209999z", 1_767_225_607_120),
        ("1969-12-31T23:59:59.999Z", -1),
        (1_767_225_607_120, 1_767_225_607_120),
    ],
)
def test_reads_instants(text: object, ms: int) -> None:
    assert parse_instant_ms(text) == ms


@pytest.mark.parametrize(
    "bad", ["2026-01-01", "2026-01-01T00:00:00", "now", "", 1.5, True, None, "2026-13-01T00:00:00Z", 2**62]
)
def test_refuses_what_is_no_instant(bad: object) -> None:
    with pytest.raises(ValueError, match=r"instant|range"):
        parse_instant_ms(bad)


@given(st.datetimes(timezones=st.just(UTC)))
def test_instants_survive_the_round_trip(instant: datetime) -> None:
    text = instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert format_instant(parse_instant_ms(text)) == text
