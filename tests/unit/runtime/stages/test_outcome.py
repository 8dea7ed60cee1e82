"""Late records and duplicates get their bytes back: one question for each partition, and not for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import orjson
import pyarrow as pa
import pytest

from crossline.evaluate.alerts.alert_json import alerts_text, json_bytes
from crossline.runtime.stages import outcome
from crossline.runtime.stages.outcome import Outcome, collect_from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Frame:
    """What ``collect_from_spark`` asks of a frame: its rows."""

    def __init__(self, **rows: Any) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        bodies = [orjson.dumps(value) for value in self._rows.values()]
        return pa.table({"kind": list(self._rows), "body": pa.array(bodies, pa.binary())})


class Clock:
    """Takes the place of the module ``time``; stands still."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class Source:
    """Has all bytes, and notes what it is asked. ``clock``: an answer takes all the time that there is by it."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.asked: list[tuple[str, list[int]]] = []
        self._clock = clock

    def __call__(self, partition: str, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
        self.asked.append((partition, list(offsets)))
        if self._clock is not None:
            self._clock.now_s = until_s
        return {offset: f"{partition}/{offset}".encode() for offset in offsets if offset != 13}


def position(partition: str, offset: int, stream: str = "s") -> dict[str, Any]:
    place = {"stream": stream, "partition": partition, "offset": offset, "record_id": f"r{offset}"}
    return {**place, "event_ms": 1_000, "ingest_ms": 5_000}


LATE = [position("p1", 9), position("p2", 4), position("p1", 3), position("p1", 13)]


def collected(source: Source) -> Outcome:
    frame = Frame(late=LATE, duplicates=[position("p1", 5)])
    return collect_from_spark(cast("DataFrame", frame), {"s": source})


def test_each_partition_is_asked_once_and_in_order() -> None:
    source = Source()
    found = collected(source)
    assert source.asked == [("p1", [3, 5, 9, 13]), ("p2", [4])]
    assert [(each.offset, each.raw) for each in found.late] == [(9, b"p1/9"), (4, b"p2/4"), (3, b"p1/3"), (13, None)]
    assert [each.lateness_ms for each in found.late] == [4_000] * 4
    assert [(each.raw, each.detail) for each in found.dead] == [
        (b"p1/5", "id 'r5' came before; the first record counts")
    ]
    assert "without_bytes" not in found.figures, "what the source no longer has is no matter of time"


def test_when_time_is_up_records_go_without_their_bytes_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(outcome, "time", clock)
    source = Source(clock)
    found = collected(source)
    assert source.asked == [("p1", [3, 5, 9, 13])], "the second partition is not asked any more"
    assert [(each.offset, each.raw) for each in found.late] == [(9, b"p1/9"), (4, None), (3, b"p1/3"), (13, None)]
    assert found.figures["without_bytes"] == 2
    assert found.dead[0].raw == b"p1/5"


def test_a_duplicate_without_its_bytes_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcome, "FETCH_S", 0.0)
    frame = Frame(duplicates=[position("p1", 5)])
    (letter,) = collect_from_spark(cast("DataFrame", frame), {"s": Source()}).dead
    assert letter.raw is None
    assert letter.detail.endswith("the first record counts; its bytes could not be fetched in time")


def test_what_shards_did_not_score_is_added_up() -> None:
    mine: dict[str, Any] = {"records": 5, "retained": 0, "clocks": {}, "failed": [["m", 2, "no number", 3]]}
    other = {**mine, "failed": [["m", 2, "no number", 1], ["n", 1, "raised", 2]]}
    found = outcome.collect_outcome([("figures", orjson.dumps(each)) for each in (mine, other)], {})
    assert found.figures["failed"] == {
        "m@2": {"records": 4, "why": "no number"},
        "n@1": {"records": 2, "why": "raised"},
    }
    assert "failed" not in collected(Source()).figures


def test_an_outcome_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="an outcome of the unknown kind rumours"):
        outcome.collect_outcome([("rumours", b"{}")], None)


def test_alerts_of_a_state_log_of_before_are_read() -> None:
    """Shards wrote one JSON list, and beside it the places without the rules."""
    alerts = [{"rule_id": "b", "value": 2**70}, {"rule_id": "a", "value": 1}, {"rule_id": "c", "value": None}]
    places = [[5, "s", "p", 0, 7, "p"], [5, "s", "p", 0, 7, "p"], [4, "s", "p", 0, 6, "p"]]
    found = outcome.collect_outcome([("alerts", json_bytes(alerts)), ("places", orjson.dumps(places))], None)
    assert (found.alerts, found.positions) == ([alerts[2], alerts[1], alerts[0]], [("p", 6), ("p", 7), ("p", 7)])
    fired = [[*place, alert["rule_id"]] for place, alert in zip(places, alerts, strict=True)]
    rows = [("alerts", alerts_text(alerts)), ("fired", orjson.dumps(fired))]
    assert outcome.collect_outcome(rows, None) == found
    unread = outcome.collect_outcome(rows, None, unread=True)
    assert list(unread.delivery("p", 0).alerts) == list(found.delivery("p", 0).alerts)
