"""Several at one ledger, in any order, at once, killed, frozen: an id has one answer."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.io.postgres.client import DatabaseAddress
from crossline.serve.ledger.postgres.ledger import PostgresLedger
from crossline.serve.ledger.postgres.reads import check_postgres
from crossline.serve.ledger.queries import LedgerCheck
from crossline.serve.ledger.reports import check_ledger
from crossline.serve.ledger.sqlite import SqliteLedger

from .ledgerkit import Clock, Open, asked, entry, outcomes

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres

SEED = 20_261_124


def test_any_order_of_steps_gives_an_id_one_answer_in_postgres(place: DatabaseAddress, clock: Clock) -> None:
    played(lambda: PostgresLedger(place, clock_ms=clock, claim_ms_max=1_000), clock, lambda: check_postgres(place))


def test_any_order_of_steps_gives_an_id_one_answer_in_sqlite(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "ledger.db"
    played(lambda: SqliteLedger(path, clock_ms=clock, claim_ms_max=1_000), clock, lambda: check_ledger(path))


def played(new: Callable[[], PostgresLedger | SqliteLedger], clock: Clock, check: Callable[[], LedgerCheck]) -> None:
    """Against a twin of a few lines: who has an id, what it was asked with, what was answered first."""
    draw = random.Random(SEED)
    ledgers = [new(), new(), new()]
    digest: dict[str, str] = {}
    answered: dict[str, bytes] = {}
    has: dict[str, tuple[object, int]] = {}  # who, since when
    for _ in range(300):
        at = draw.randrange(len(ledgers))
        ledger, name, body = ledgers[at], f"t{draw.randrange(12)}", draw.choice(["{}", "{}", "{1}"])
        step = draw.choice(["claim", "claim", "answer", "answer", "release", "forget", "kill", "wait"])
        if step == "claim":
            (claimed,) = ledger.claim([asked(name, body)])
            if digest.setdefault(name, body) != body:
                assert claimed.outcome == "differs"
            elif name in answered:
                assert (claimed.outcome, claimed.body) == ("answered", answered[name])
            elif name in has and has[name][0] in ledgers and clock.now_ms - has[name][1] < 1_000:
                assert claimed.outcome == "pending"
            else:
                assert claimed.outcome == "fresh"
                has[name] = (ledger, clock.now_ms)
        elif step == "answer":
            (kept,) = ledger.answer([entry(name, body, decision=draw.choice(["allow", "block"]))])
            if digest.setdefault(name, body) != body:
                assert kept is None
            else:
                assert kept is not None
                assert kept.first is (name not in answered)
                assert kept.body == answered.setdefault(name, kept.body)
        elif step in {"release", "forget"}:
            ledger.release([asked(name)], forget=step == "forget")
            if name not in answered and has.get(name, (None, 0))[0] is ledger:
                del has[name]
                if step == "forget":
                    del digest[name]
        elif step == "kill":
            ledger.close()
            ledgers[at] = new()
        else:
            clock.now_ms += draw.choice([100, 400])
    assert len(answered) > 6
    for ledger in ledgers:
        ledger.close()
    checked = check()
    assert checked.faults == []
    assert sum(checked.chains.values()) == len(answered)


def test_all_race_for_the_same_ids(opened: Open, place: DatabaseAddress) -> None:
    """Threads with ledgers of their own, in other orders: each id is fresh once, and all are given one answer."""
    names = [f"t{number}" for number in range(40)]
    fresh: list[str] = []
    bodies: list[dict[str, bytes]] = []
    begin = threading.Barrier(4)

    def race(number: int, ledger: PostgresLedger) -> None:
        order = names[:]
        random.Random(number).shuffle(order)
        begin.wait()
        given: dict[str, bytes] = {}
        for at in range(0, len(order), 8):
            part = order[at : at + 8]
            fresh.extend(
                name
                for name, each in zip(part, ledger.claim([asked(n) for n in part]), strict=True)
                if each.outcome == "fresh"
            )
            word = "allow" if number % 2 else "block"
            for name, kept in zip(part, ledger.answer([entry(n, decision=word) for n in part]), strict=True):
                assert kept is not None
                given[name] = kept.body
        bodies.append(given)

    threads = [threading.Thread(target=race, args=(n, opened())) for n in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(bodies) == 4
    assert all(given == bodies[0] for given in bodies)
    assert len(fresh) == len(set(fresh)), "no two processes have the same claim"
    checked = check_postgres(place)
    assert checked.faults == []
    assert sum(checked.chains.values()) == 40


def test_one_that_is_killed_and_one_that_is_frozen(
    postgres_server: LocalPostgres, opened: Open, place: DatabaseAddress
) -> None:
    """Another process claims; killed, its claims are free at once. Frozen, it does not delay requests for other ids."""
    ledger = opened()
    command = [sys.executable, "-m", "tests.unit.serve.ledger.claiming", str(postgres_server.port), place.schema]
    given = (*command, str(postgres_server.password_file))
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "fresh fresh\n"
            assert outcomes(ledger, asked("t1"), asked("t3")) == ["pending", "fresh"]
            other.send_signal(signal.SIGSTOP)
            assert outcomes(ledger, asked("t2"), asked("t4")) == ["pending", "fresh"]
            other.kill()
            other.wait()
            taken = _until_taken(ledger)
            assert taken == ["fresh", "fresh"]
        finally:
            other.kill()


def _until_taken(ledger: PostgresLedger) -> list[str]:
    """The server sees the end of a connection in its own time."""
    for _ in range(1_000):
        found = outcomes(ledger, asked("t1"), asked("t2"))
        if found[0] == "fresh":
            return found if found[1] == "fresh" else [found[0], *outcomes(ledger, asked("t2"))]
        threading.Event().wait(0.01)
    return []
