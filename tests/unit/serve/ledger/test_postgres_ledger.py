"""The ledger in PostgreSQL: what the one in SQLite promises, over several machines, connections lost, races."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psycopg
import pytest

from crossline.basics.errors import RetryableError, StateError, UsageError
from crossline.cli.main import run_command
from crossline.io.postgres.client import DatabaseAddress
from crossline.serve.ledger.chain import faults_of
from crossline.serve.ledger.postgres.connection_cutter import Cutter
from crossline.serve.ledger.postgres.reads import PostgresReads, check_postgres
from crossline.serve.ledger.reports import answered_later, check_ledger, receipt_of
from crossline.serve.ledger.signing import Signer
from crossline.settings.postgres import LedgerSettings

from .ledgerkit import BASIS, Clock, Open, asked, decision_of, entry, key_files, outcomes

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres


def test_an_id_is_asked_answered_and_asked_again(opened: Open, tmp_path: Path) -> None:
    signer = Signer.from_file(key_files(tmp_path)[0])
    ledger = opened(signer=signer)
    questions = (asked("t1"), asked("t1"), asked("t1", "{1}"), asked("t2"))
    assert outcomes(ledger, *questions) == ["fresh", "pending", "differs", "fresh"]
    (kept,) = ledger.answer([entry("t1")])
    assert kept is not None
    assert orjson.loads(kept.body) == {**decision_of("t1"), "receipt": kept.digest}
    again, other = ledger.claim([asked("t1"), asked("t1", "{1}")])
    assert (again.outcome, again.body, again.decision_id) == ("answered", kept.body, kept.decision_id)
    assert (other.outcome, other.body) == ("differs", None)
    assert outcomes(ledger, asked("t1", stream="others")) == ["fresh"], "ids are those of a stream"
    found = ledger.by_record("payments", "t1")
    assert found == ledger.decision(kept.decision_id)
    assert found is not None
    assert (found.body, found.digest, found.revisions) == (kept.body, kept.digest, ())
    assert ledger.by_record("payments", "t2") is None
    assert ledger.receipt("none") is None
    receipt = ledger.receipt(kept.decision_id)
    assert receipt is not None
    assert faults_of(receipt, signer.public()) == []
    assert (receipt["decision"], receipt["rules"]) == (decision_of("t1"), list(BASIS.rules))


def test_several_at_once_have_chains_of_their_own_and_restarts_go_on(opened: Open, place: DatabaseAddress) -> None:
    one, two = opened(), opened()
    assert one.replica != two.replica
    assert outcomes(one, asked("t1")) == ["fresh"]
    assert outcomes(two, asked("t1"), asked("t1", "{1}")) == ["pending", "differs"]
    (kept,) = one.answer([entry("t1")])
    two.answer([entry("t2")])
    assert kept is not None
    assert two.claim([asked("t1")])[0].body == kept.body
    replica, end = one.replica, one.link
    one.close()
    third = opened()
    assert (third.replica, third.link) == (replica, end)
    third.answer([entry("t3")])
    checked = check_postgres(place)
    assert (checked.chains, checked.faults) == ({replica: 2, two.replica: 1}, [])


def test_it_is_verified_by_its_address_as_a_file_is(
    opened: Open, place: DatabaseAddress, postgres_server: LocalPostgres, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    (kept,) = opened().answer([entry("t1")])
    clock.now_ms += 1
    opened().answer([entry("t2")])
    assert kept is not None
    monkeypatch.setenv("PGPASSWORD", postgres_server.password_file.read_text())
    url = f"{postgres_server.url}?schema={place.schema}"
    assert check_ledger(url).faults == []
    assert sum(check_ledger(url).chains.values()) == 2
    receipt = receipt_of(url, kept.decision_id)
    assert receipt is not None
    assert receipt["digest"] == kept.digest
    assert answered_later(url, "payments", "t1", ["t2", "t1", "t9"]) == {"t2"}
    assert run_command(["verify", "--ledger", url]) == 0
    with pytest.raises(UsageError, match="has a password in it"):
        check_ledger("postgresql://me:secret@host/db")


def test_the_claim_of_one_that_ended_is_taken_over(opened: Open) -> None:
    one, two = opened(), opened()
    outcomes(one, asked("t1"), asked("t2"))
    one.close()
    (claimed,) = two.claim([asked("t1")])
    assert (claimed.outcome, claimed.again) == ("fresh", True)
    assert outcomes(two, asked("t1")) == ["pending"]
    third = opened()
    assert third.replica == one.replica
    assert outcomes(third, asked("t2")) == ["fresh"], "its slot has it, and another process"


def test_a_claim_without_an_answer_expires_and_the_first_answer_holds(opened: Open, clock: Clock) -> None:
    slow, quick = opened(claim_ms_max=1_000), opened(claim_ms_max=1_000)
    outcomes(slow, asked("t1"))
    clock.now_ms += 999
    assert outcomes(quick, asked("t1")) == ["pending"]
    clock.now_ms += 1
    assert outcomes(quick, asked("t1"), asked("t1")) == ["fresh", "pending"]
    (first,) = quick.answer([entry("t1", decision="block")])
    (second,) = slow.answer([entry("t1", decision="allow")])
    assert first is not None
    assert second is not None
    assert (second.body, second.digest, second.first) == (first.body, first.digest, False)
    assert slow.link.sequence == 0, "an answer that does not hold has no receipt"


def test_claims_are_given_up(opened: Open) -> None:
    one, two = opened(), opened()
    outcomes(one, asked("t1"), asked("t2"))
    two.release([asked("t1"), asked("t2")])
    assert outcomes(two, asked("t1")) == ["pending"], "only who has it gives it up"
    one.release([asked("t1")])
    one.release([asked("t2")], forget=True)
    assert outcomes(two, asked("t1", "{1}")) == ["differs"], "its record may be in the stream"
    (claimed,) = two.claim([asked("t1")])
    assert (claimed.outcome, claimed.again) == ("fresh", True)
    (claimed,) = two.claim([asked("t2", "{1}")])
    assert (claimed.outcome, claimed.again) == ("fresh", False)
    assert one.answer([entry("t2")]) == [None], "it belongs to another body now"
    (kept,) = one.answer([entry("t1")])
    one.release([asked("t1")], forget=True)
    assert kept is not None
    assert two.claim([asked("t1")])[0].body == kept.body


def test_an_answer_that_cannot_be_kept_leaves_the_chain(opened: Open, place: DatabaseAddress) -> None:
    ledger = opened()
    ledger.answer([entry("t1")])
    link = ledger.link
    with pytest.raises(TypeError):
        ledger.answer([entry("t2"), entry("t3", score=object())])
    assert ledger.link == link
    assert ledger.by_record("payments", "t2") is None
    ledger.answer([entry("t2")])
    assert check_postgres(place).faults == []


def revision(number: int, decision: str) -> dict[str, Any]:
    return {"decision_id": f"revision-{number}", "kind": "revision", "revision": number, "decision": decision}


def test_revisions_and_counts_are_those_of_all(opened: Open, place: DatabaseAddress) -> None:
    ledger, other = opened(), opened()
    kept = [
        (other if n == 2 else ledger).answer([entry(f"t{n}", answered=kind)])[0]
        for n, kind in enumerate(["peek", "peek", "peek", "fallback"])
    ]
    ids = [each.decision_id for each in kept if each]
    ledger.claim([asked("open")])
    assert ledger.revise(ids[0], revision(1, "block"))
    assert not other.revise(ids[0], revision(1, "block")), "another process has it already"
    assert other.revise(ids[1], revision(1, "allow")), "revised, and the same decision"
    assert ledger.revise(ids[3], revision(1, "block"))
    assert not ledger.revise("none", revision(1, "block"))
    counts = other.counts()
    assert counts.answered == {"peek": 3, "fallback": 1}
    assert counts.revised == {"peek": 2, "fallback": 1}
    assert {name: n for name, n in counts.differs.items() if n} == {"peek": 1, "fallback": 1}
    assert counts.pending == 1
    assert other.revise(ids[0], revision(2, "allow")), "and back again"
    assert ledger.counts().differs["peek"] == 0
    assert ledger.revise(ids[1], revision(3, "block"))
    assert ledger.revise(ids[1], revision(2, "allow")), "sent late: the last one counts"
    assert ledger.counts().differs["peek"] == 1
    reads = PostgresReads(place)
    found = reads.answer(ids[1])
    assert found is not None
    assert [each["revision"] for each in found.revisions] == [1, 2, 3]
    assert reads.by_record("payments", "t2") == ledger.by_record("payments", "t2")
    assert [each[1] for each in reads.unsettled(0, 10)] == ["t2"]
    assert reads.receipt(ids[0]) == ledger.receipt(ids[0])
    reads.close()


def test_what_differs_and_figures_of_records(opened: Open, place: DatabaseAddress) -> None:
    ledger = opened()
    kept = ledger.answer([entry(f"t{n}", answered=kind) for n, kind in enumerate(["peek", "peek", "fallback"])])
    ids = [each.decision_id for each in kept if each]
    assert ledger.revise(ids[0], {**revision(1, "block"), "was": "allow", "answered": "peek"})
    assert ledger.revise(ids[1], revision(1, "block")), "by the stream itself"
    reads = PostgresReads(place)
    ((answer, decided),) = reads.differing(0, 10)
    assert (answer["record_id"], answer["decision"], decided["decision"]) == ("t0", "allow", "block")
    assert reads.differing(1 << 60, 10) == []
    found = reads.figures([("payments", "t0"), ("payments", "t2"), ("payments", "never")])
    receipt = reads.receipt(ids[0])
    assert receipt is not None
    assert found == {("payments", "t0"): {each["name"]: each for each in receipt["figures"]}}
    assert found["payments", "t0"]
    reads.close()


def test_retention_in_small_steps(place: DatabaseAddress, opened: Open, clock: Clock) -> None:
    one, two = opened(), opened()
    for number in range(6):
        (one, two)[number % 2].answer([entry(f"t{number}")])
        clock.now_ms += 10
    outcomes(one, asked("never"))
    before_ms = clock.now_ms - 20  # the last two are younger
    assert [one.expire(before_ms, most=3), one.expire(before_ms, most=3), one.expire(before_ms)] == [3, 1, 0]
    assert [one.by_record("payments", f"t{n}") is None for n in range(6)] == [True] * 4 + [False] * 2
    checked = check_postgres(place)
    assert (checked.faults, checked.chains) == ([], {one.replica: 1, two.replica: 1})
    clock.now_ms += 1_000
    assert one.expire(clock.now_ms) == 3
    two.answer([entry("later")])
    assert two.link.sequence == 4
    assert check_postgres(place).faults == []
    assert outcomes(one, asked("t0")) == ["fresh"]


DAMAGE = {
    "an answer": ("UPDATE answers SET body = convert_to('{}', 'UTF8') WHERE record_id = 't1'", "altered", 2),
    "a receipt gone": ("DELETE FROM receipts WHERE sequence = 2", "left_out", 2),
    "the last gone": ("DELETE FROM receipts WHERE sequence = 3", "left_out", 3),
    "a chain gone": ("DELETE FROM chains", "altered", 0),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_was_done_to_the_tables_is_found(what: str, place: DatabaseAddress, opened: Open) -> None:
    opened().answer([entry(f"t{number}") for number in range(3)])
    assert check_postgres(place).faults == []
    statement, fault, sequence = DAMAGE[what]
    with place.connect() as connection:
        connection.execute(statement.encode())
    faults = check_postgres(place).faults
    assert (faults[0].fault, faults[0].sequence) == (fault, sequence), faults


HOSTILE = {
    "empty": "",
    "sql": "'; DROP TABLE answers; --",
    "nul": "a\x00b",
    "mark": "\uf8fe0",
    "long": "x" * 60_000,
    "wide": "é" * 5_000,
    "percent": "%s ? %(a)s",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_ids(what: str, opened: Open, place: DatabaseAddress) -> None:
    record_id, ledger = HOSTILE[what], opened()
    assert outcomes(ledger, asked(record_id), asked("other")) == ["fresh", "fresh"]
    (kept,) = ledger.answer([entry(record_id)])
    assert kept is not None
    found = ledger.by_record("payments", record_id)
    assert found is not None
    assert (found.record_id, found.body) == (record_id, kept.body)
    assert outcomes(ledger, asked(record_id), asked(f"{record_id}x")) == ["answered", "fresh"]
    assert check_postgres(place).faults == []


def test_a_connection_that_is_cut_is_made_anew(opened: Open, place: DatabaseAddress) -> None:
    ledger = opened()
    ledger.answer([entry("t1")])
    outcomes(ledger, asked("t2"))
    with place.connect() as connection:
        ended = "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        connection.execute(ended)
    assert outcomes(ledger, asked("t3"), asked("t1")) == ["fresh", "answered"]
    (claimed,) = ledger.claim([asked("t2")])
    assert (claimed.outcome, claimed.again) == ("fresh", True), "it was another session that had it"
    ledger.answer([entry("t2")])
    assert check_postgres(place).faults == []


def test_a_schema_of_something_else_and_no_ledger(place: DatabaseAddress, opened: Open) -> None:
    with pytest.raises(StateError, match="holds no ledger"):
        check_postgres(place)
    with place.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{place.schema}"'.encode())
        connection.execute(f'CREATE TABLE "{place.schema}".alerts (n int)'.encode())
    with pytest.raises(StateError, match="holds something else"):
        opened()
    opening = LedgerSettings.model_validate({"dsn_env": "LEDGER"})
    assert opening.schema_name == "crossline_ledger", "not that of a sink"


def test_the_answers_of_another_pipeline_are_not_given_out(opened: Open) -> None:
    """Both have a stream of the name and an id in it: they are two records."""
    opened(pipeline="shop").answer([entry("t1")])
    with pytest.raises(UsageError, match="has what was answered for pipeline shop; expected that of bank"):
        opened(pipeline="bank")
    assert outcomes(opened(pipeline="shop"), asked("t1")) == ["answered"]


def test_answers_that_were_kept_are_reported_though_claims_fail(
    opened: Open, place: DatabaseAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise they would never be compared with the stream's decisions: a retry gets them, answered."""
    ledger = opened()

    def fails(*_: Any) -> Any:
        raise RetryableError("lock timeout")

    monkeypatch.setattr("crossline.serve.ledger.postgres.ledger.claim_all", fails)
    claimed, kept = ledger.exchange([asked("t2")], [entry("t1")])
    assert [each.outcome for each in claimed] == ["pending"]
    assert [each is not None and each.decision_id for each in kept] == [decision_of("t1")["decision_id"]]
    with pytest.raises(RetryableError, match="lock timeout"):
        ledger.claim([asked("t2")])
    assert check_postgres(place).faults == []


def test_a_closed_one_says_so(opened: Open) -> None:
    ledger = opened()
    ledger.close()
    ledger.close()
    with pytest.raises(StateError, match="is not open"):
        ledger.claim([asked("t1")])


def test_a_server_that_says_nothing_more_is_not_waited_for(opened: Open, place: DatabaseAddress) -> None:
    """One that holds a table is given up by the server; one that is silent, by the client."""
    ledger = opened()
    ledger.answer([entry("t1")])
    assert ledger._session is not None
    ledger._session.connection.execute("SET lock_timeout = '50ms'")
    with place.connect() as other, other.transaction():
        other.execute("LOCK TABLE answers IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(RetryableError, match=r"cannot be written now.*lock timeout"):
            ledger.claim([asked("t2")])
    assert outcomes(ledger, asked("t2")) == ["fresh"]
    cutter = Cutter()
    with (
        place.connect() as silent,
        pytest.raises(psycopg.OperationalError, match=r"no whole answer in 0\.1 s"),
        cutter.within(silent, 0.1),
    ):
        silent.execute("SELECT pg_sleep(60)")
    cutter.close()
