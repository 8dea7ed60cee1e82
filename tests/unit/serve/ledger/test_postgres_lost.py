"""A connection to the ledger in PostgreSQL that ends while something is committed: what came of it is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from crossline.basics.errors import RetryableError
from crossline.io.postgres.client import DatabaseAddress
from crossline.serve.decisions.values import OutcomeUnknownError
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.serve.ledger.postgres.reads import check_postgres

from .cutting import Line
from .ledgerkit import Clock, Open, asked, decision_of, entry, outcomes

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres


@pytest.fixture
def line(postgres_server: LocalPostgres) -> Iterator[Line]:
    with Line(postgres_server.port) as found:
        yield found


@pytest.fixture
def far(line: Line, place: DatabaseAddress, clock: Clock) -> Iterator[PostgresLedger]:
    """A ledger whose connection may be cut."""
    by_line = replace(place, options={**place.options, "host": "127.0.0.1", "port": line.here})
    with closing(PostgresLedger(by_line, clock_ms=clock)) as ledger:
        yield ledger


@pytest.mark.parametrize("raw", [b"COMMIT\x00", None])
def test_whether_an_answer_was_committed_is_read_on_another_connection(
    far: PostgresLedger, line: Line, opened: Open, place: DatabaseAddress, raw: bytes | None
) -> None:
    """The commit was made and its word lost; or it never came there."""
    outcomes(far, asked("t1"))
    line.arm(b"COMMIT", raw)
    (kept,) = far.answer([entry("t1", decision="block")])
    assert line.cut.is_set()
    assert kept is not None
    found = opened().by_record("payments", "t1")
    assert found is not None
    assert (found.body, found.digest) == (kept.body, kept.digest)
    assert decision_of("t1", decision="block")["decision_id"] == kept.decision_id
    far.answer([entry("t2")])
    checked = check_postgres(place)
    assert checked.faults == []
    assert sum(checked.chains.values()) == 2, "it was kept once"


@pytest.mark.parametrize("raw", [b"INSERT 0 1", None])
def test_a_claim_whose_acknowledgement_was_lost_is_the_callers(
    far: PostgresLedger, line: Line, opened: Open, raw: bytes | None
) -> None:
    other = opened()
    line.arm(b"INSERT INTO answers", raw)
    (claimed,) = far.claim([asked("t1")])
    assert line.cut.is_set()
    assert (claimed.outcome, claimed.again) == ("fresh", False)
    assert outcomes(other, asked("t1")) == ["pending"], "no other process has it"
    assert outcomes(far, asked("t1")) == ["pending"]


def test_an_unknown_outcome_is_reported_and_resolved_later(
    far: PostgresLedger, line: Line, place: DatabaseAddress
) -> None:
    outcomes(far, asked("t1"))
    line.arm(b"COMMIT", b"COMMIT\x00")
    line.closed = True
    with pytest.raises(OutcomeUnknownError):
        far.answer([entry("t1")])
    with pytest.raises(RetryableError):
        far.answer([entry("t1")])
    line.closed = False
    far._failed_s = float("-inf")
    (kept,) = far.answer([entry("t1")])
    assert kept is not None
    checked = check_postgres(place)
    assert (checked.faults, sum(checked.chains.values())) == ([], 1)


def test_a_slot_is_free_as_soon_as_its_ledger_is_closed(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sees the end of a connection in its own time: here, never."""
    one, two = opened(), opened()
    outcomes(one, asked("t1"), asked("t2"))
    session = one._session
    assert session is not None
    real = session.connection.close
    with monkeypatch.context() as patch:
        patch.setattr(session.connection, "close", lambda: None)
        one.close()
    (claimed,) = two.claim([asked("t1")])
    assert (claimed.outcome, claimed.again) == ("fresh", True)
    third = opened()
    assert third.replica == one.replica
    real()
