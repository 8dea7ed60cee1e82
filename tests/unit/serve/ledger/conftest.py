"""A ledger in PostgreSQL, opened as often as a test wants, by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.connectors.postgres_kit import place_in

from crossline.io.postgres.client import DatabaseAddress
from crossline.serve.ledger.postgres.ledger import PostgresLedger

from .ledgerkit import Clock, Open, opening

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def place(postgres_server: LocalPostgres, postgres_schema: str) -> DatabaseAddress:
    return place_in(postgres_server, postgres_schema)


@pytest.fixture
def opened(place: DatabaseAddress, clock: Clock) -> Iterator[Open]:
    with opening(partial(PostgresLedger, place, clock_ms=clock)) as made:
        yield made
