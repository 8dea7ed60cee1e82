"""What may be stored: bounds on texts and times, so that no request fills the file or breaks what reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crossline.basics.texts.problems import shown
from crossline.basics.times import instant_text
from crossline.serve.cases.values import LinkedAlert, NotTakenError

ID_MAX, TITLE_MAX, REASON_MAX, NOTE_MAX = 1_024, 200, 4_000, 20_000
ALERTS_MAX, KEY_MAX = 1_000, 16
FUTURE_MS = 300_000  # clocks of those who ask may be ahead
EARLIEST_MS = -62_135_596_800_000  # 0001-01-01


def text(pointer: str, value: object, most: int, *, least: int = 0) -> str:
    """``value`` as a text of so many characters. Raises NotTakenError."""
    expected = f"text of {f'{least} to' if least else 'at most'} {most:,} characters"
    if not isinstance(value, str):
        raise NotTakenError(pointer, shown(value), expected)
    if not least <= len(value) <= most:
        raise NotTakenError(pointer, f"{len(value):,} characters", expected)
    half = next((each for each in value if "\ud800" <= each <= "\udfff"), None)
    if half is not None or "\0" in value:
        raise NotTakenError(pointer, "half of a character" if half else "a NUL", "text in Unicode")
    return value


def known_ms(pointer: str, value: int | None, now_ms: int) -> int:
    """When something became known; None is now. Raises NotTakenError if that is yet to come."""
    if value is None:
        return now_ms
    if isinstance(value, bool) or not isinstance(value, int) or not EARLIEST_MS <= value <= now_ms + FUTURE_MS:
        found = instant_text(value) if type(value) is int and abs(value) < -EARLIEST_MS else shown(value)
        raise NotTakenError(pointer, found, f"an instant up to now, {instant_text(now_ms)}")
    return value


def truth(pointer: str, value: object) -> bool:
    """Raises NotTakenError if ``value`` is neither true nor false."""
    if not isinstance(value, bool):
        raise NotTakenError(pointer, shown(value), "true or false")
    return value


def alerts(pointer: str, values: Sequence[LinkedAlert]) -> tuple[LinkedAlert, ...]:
    """``values``, of one alert the last. Raises NotTakenError."""
    for number, each in enumerate(values):
        text(f"{pointer}/{number}/alert_id", each.alert_id, ID_MAX, least=1)
        if (each.stream is None) != (each.record_id is None):
            raise NotTakenError(f"{pointer}/{number}", "one of stream and record_id", "both, or neither")
        if each.stream is not None:
            text(f"{pointer}/{number}/stream", each.stream, ID_MAX, least=1)
            text(f"{pointer}/{number}/record_id", each.record_id, ID_MAX, least=1)
    found = tuple({each.alert_id: each for each in values}.values())
    if len(found) > ALERTS_MAX:
        raise NotTakenError(pointer, f"{len(found):,} alerts", f"at most {ALERTS_MAX:,} in a case")
    return found


def about(pointer: str, value: Mapping[str, str]) -> dict[str, str]:
    """``value`` as a key. Raises NotTakenError."""
    if len(value) > KEY_MAX:
        raise NotTakenError(pointer, f"{len(value):,} fields", f"at most {KEY_MAX} in a key")
    for name, each in value.items():
        text(pointer, name, ID_MAX, least=1)
        text(f"{pointer}/{name}", each, ID_MAX)
    return dict(value)
