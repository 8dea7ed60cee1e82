"""Digests of what is delivered: copied where all of a delivery is new, asked for where it comes again."""

from __future__ import annotations

from typing import Any

import pytest
from dev.services.postgres import LocalPostgres

from crossline.io.postgres import sink as module
from crossline.io.postgres.client import DatabaseAddress
from crossline.io.sinks.base import Delivery

from .makers import alert, delivery
from .postgres_kit import ids, opened, place_in, rows


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


def test_what_is_new_is_copied_and_what_comes_again_is_asked_for(
    place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a delivery is new in part; once one is new as a whole the next is copied again."""
    ways: list[str] = []
    for name in ("_insert_fresh", "_insert"):
        whole = getattr(module, name)

        def noted(connection: Any, given: Any, name: str = name, whole: Any = whole) -> Any:
            ways.append(f"{name} {given.table}")
            return whole(connection, given)

        monkeypatch.setattr(module, name, noted)
    fresh, asked = ["_insert_fresh alerts", "_insert_fresh batches"], ["_insert alerts", "_insert batches"]
    with opened(place) as sink:
        for number, names, expected in [
            (0, "ab", fresh),
            (1, "cd", fresh),
            (1, "cd", [*fresh[:1], *asked]),
            (2, "de", asked),
            (3, "fg", asked),
            (4, "hi", fresh),
        ]:
            sink.deliver(delivery(number, *names))
            assert ways == expected
            ways.clear()
    assert ids(place) == [f"id-{name}" for name in "abcdefghi"]
    assert rows(place, "SELECT count(*), count(DISTINCT month) FROM delivered") == [(9 + 5, 2)]
    assert rows(place, "SELECT batch_id FROM batches ORDER BY seq") == [(number,) for number in range(5)]


def test_months_of_all_times_are_stored_as_they_are(place: DatabaseAddress) -> None:
    """PostgreSQL counts days from the year 2000 on, also those before it."""
    times = ["1969-07-20T20:17:40Z", "1999-12-31T23:59:59Z", "2000-01-01T00:00:00Z", "2400-02-29T00:00:00Z"]
    with opened(place) as sink:
        alerts = [alert(f"t{n}", event_time=text) for n, text in enumerate(times)]
        sink.deliver(Delivery("p", 0, alerts=alerts))
    found = {str(row[0]) for row in rows(place, "SELECT month::text FROM delivered")}
    assert {"1969-07-01", "1999-12-01", "2000-01-01", "2400-02-01"} < found
