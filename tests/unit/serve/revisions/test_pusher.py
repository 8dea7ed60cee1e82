"""A real HTTP server that takes, refuses, hangs, goes away and comes back: what it gets, in which order, how often."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from connectors.receiving import TRICKLE, Receiver
from crossline.basics.errors import PermanentError, StateError
from crossline.serve.revisions import sender as module
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.serve.revisions.queue import QueueFullError
from crossline.settings.process.serve import RevisionSettings

from .kit import WAIT_S, at, in_order, many, revision


def test_each_is_posted_once_signed_and_in_the_order_of_its_record(
    make: Callable[..., RevisionPusher], receiver: Receiver, tmp_path: Path
) -> None:
    pusher = make(at(receiver.port))
    assert pusher.put(many("abcdef", 20)) == 120
    assert pusher.wait_idle(WAIT_S)
    assert len(receiver.taken) == 120
    assert all(in_order(receiver.taken, each) == list(range(20)) for each in "abcdef")
    assert pusher.put(many("abcdef", 21)) == 6, "what was sent is not sent again"
    assert pusher.wait_idle(WAIT_S)
    assert len(receiver.taken) == 126
    (state,) = pusher.states()
    assert (state.pending, state.sent, state.parked, state.expired, state.oldest_ms, state.away) == (
        0,
        126,
        0,
        0,
        None,
        None,
    )
    modes = [(tmp_path / "serve" / name).stat().st_mode & 0o777 for name in ("", "revisions.db", "revisions.db.lock")]
    assert modes == [0o700, 0o600, 0o600]


def test_a_refusal_holds_up_its_record_alone(make: Callable[..., RevisionPusher], receiver: Receiver) -> None:
    taken_b = threading.Event()

    def answer(body: dict[str, Any], times: int) -> int:
        if body["revision_id"] == "b-19":
            taken_b.set()
        # a-0 is refused until b has all of its own.
        return 500 if body["revision_id"] == "a-0" and not (taken_b.is_set() and times > 2) else 200

    receiver.answer = answer
    pusher = make(at(receiver.port, attempts=1_000_000, parallel=1))
    pusher.put(many("ab", 20))
    assert pusher.wait_idle(WAIT_S)
    assert in_order(receiver.taken, "a") == in_order(receiver.taken, "b") == list(range(20))
    assert receiver.taken.index("a-0") > receiver.taken.index("b-19")


@pytest.mark.parametrize(
    ("status", "attempts"), [(500, 3), (404, 3), (302, 3), (400, 1), (413, 1), (422, 1), (None, 3)]
)
def test_one_that_is_never_taken_is_parked_and_those_behind_it_go_on(
    make: Callable[..., RevisionPusher], receiver: Receiver, status: int | None, attempts: int
) -> None:
    receiver.answer = lambda body, _times: status if body["revision_id"] == "a-1" else 200
    pusher = make(at(receiver.port, attempts=3))
    with capture_logs() as logs:
        pusher.put(many("ab", 3))
        assert pusher.wait_idle(WAIT_S)
    assert sorted(receiver.taken) == ["a-0", "a-2", "b-0", "b-1", "b-2"]
    (failed,) = pusher.failed()
    assert (failed.revision_id, failed.record_id, failed.status, failed.attempts) == (
        "a-1",
        "a",
        "parked",
        attempts - (attempts == 1) + (attempts == 1),
    )
    assert failed.why.startswith(f"{status} said" if status else "it hung up")
    assert [each["status"] for each in logs if each["event"] == "a revision was not accepted"] == ["parked"]
    assert pusher.put([revision("a", 1)]) == 0


@pytest.mark.parametrize("how", [429, 503, "away", "hangs up"])
def test_while_an_address_is_away_or_busy_all_waits(
    make: Callable[..., RevisionPusher], receiver: Receiver, how: int | str
) -> None:
    asked, back = threading.Semaphore(0), threading.Event()

    def answer(_body: dict[str, Any], _times: int) -> int | None:
        asked.release()
        return 200 if back.is_set() else how if isinstance(how, int) else None

    receiver.answer = answer
    receiver.away.set()
    other = Receiver()
    pusher = make(at(receiver.port, attempts=1), at(other.port))
    pusher.put(many("ab", 2))
    for _ in range(4):
        assert asked.acquire(timeout=WAIT_S)
    assert receiver.taken == []
    (waits, second_state), _ = pusher.states(), None
    assert waits.pending == 4
    assert second_state.away is None
    back.set()
    assert pusher.wait_idle(WAIT_S)
    assert in_order(receiver.taken, "a") == in_order(receiver.taken, "b") == [0, 1]
    assert sorted(other.taken) == sorted(receiver.taken), "another address got it meanwhile"
    assert pusher.failed() == []
    other.close()


def test_an_address_that_comes_back_on_its_port_is_reported(
    make: Callable[..., RevisionPusher], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, pause_s = threading.Event(), module._pause_s

    def paused(failures: int) -> float:
        if failures > 1:  # the first failure is noted by then
            failing.set()
        return pause_s(failures)

    monkeypatch.setattr(module, "_pause_s", paused)
    gone = Receiver()
    port = gone.port
    gone.close()
    pusher = make(at(port))
    with capture_logs() as logs:
        pusher.put(many("a", 2))
        assert failing.wait(WAIT_S)
        assert "cannot be reached" in str(pusher.states()[0].away)
        back = Receiver(port)
        assert pusher.wait_idle(WAIT_S)
    assert back.taken == ["a-0", "a-1"]
    assert [each["event"] for each in logs].count("revisions wait") == 1, "logged once, not at each attempt"
    back.close()


def test_what_waits_survives_a_restart_and_goes_on_in_order(
    make: Callable[..., RevisionPusher], receiver: Receiver, tmp_path: Path
) -> None:
    refused = threading.Semaphore(0)

    def answer(body: dict[str, Any], _times: int) -> int:
        if body["revision"] < 2:
            return 200
        refused.release()
        return 503

    receiver.answer = answer
    first = make(at(receiver.port, parallel=2))
    first.put(many("ab", 2))
    assert first.wait_idle(WAIT_S)
    first.put(many("ab", 5))
    assert refused.acquire(timeout=WAIT_S)
    first.close()
    assert sorted(set(receiver.taken)) == ["a-0", "a-1", "b-0", "b-1"]
    receiver.answer = lambda _body, _times: 200
    second = make(at(receiver.port))
    assert second.wait_idle(WAIT_S)
    for record in "ab":
        found = in_order(receiver.taken, record)
        assert sorted(set(found)) == list(range(5))
        assert found == sorted(found)
    with pytest.raises(PermanentError, match="another process sends the revisions of this folder"):
        make(at(receiver.port))


CHILD = """
import json, sys
from pathlib import Path
from crossline.settings.process.serve import RevisionSettings
from crossline.serve.revisions.pusher import RevisionPusher
from crossline.serve.revisions.values import Revision
path, port = Path(sys.argv[1]), sys.argv[2]
settings = RevisionSettings.model_validate({"url": f"http://127.0.0.1:{port}/r", "password_env": "CROSSLINE_TEST_KEY"})
pusher = RevisionPusher(path, [settings])
pusher.open()
for number in range(100_000):
    batch = [Revision(f"{r}-{number}", "p", r, {"revision_id": f"{r}-{number}", "revision": number}) for r in "abc"]
    pusher.put(batch)
    print(number, flush=True)
"""


def test_a_kill_loses_nothing_that_was_put(
    make: Callable[..., RevisionPusher], receiver: Receiver, tmp_path: Path
) -> None:
    """At least once: everything that the killed process accepted is sent; repeats have known ids."""
    path = tmp_path / "serve" / "revisions.db"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(receiver.port)],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    with child:
        assert child.stdout is not None
        for line in child.stdout:
            if int(line) >= 40:
                break
        child.send_signal(signal.SIGKILL)
        put = max([int(line), *map(int, child.stdout.read().split())])
    settings = RevisionSettings.model_validate(
        {"url": f"http://127.0.0.1:{receiver.port}/r", "password_env": "CROSSLINE_TEST_KEY"}
    )
    pusher = make(settings)
    assert pusher.wait_idle(WAIT_S)
    for record in "abc":
        found = in_order(receiver.taken, record)
        assert set(found) >= set(range(put + 1))
        assert found == sorted(found)
        assert len(found) - len(set(found)) <= 1, "of a record one is under way at a time"


def test_a_queue_that_is_full_takes_all_or_nothing(make: Callable[..., RevisionPusher], receiver: Receiver) -> None:
    receiver.answer = lambda _body, _times: 503
    receiver.headers = {"Retry-After": "3600"}
    pusher = make(at(receiver.port, pending_max=5))
    assert pusher.put(many("a", 4)) == 4
    with pytest.raises(QueueFullError, match=r"5 revisions wait for .*see that it answers"):
        pusher.put([revision("b", 0), revision("b", 1)])
    assert pusher.states()[0].pending == 4
    assert pusher.put([revision("b", 0)]) == 1
    assert pusher.put(many("a", 4)) == 0, "those that wait already are not new"


def test_a_stop_does_not_wait_for_an_answer_that_never_ends(
    make: Callable[..., RevisionPusher], receiver: Receiver
) -> None:
    asked = threading.Event()

    def trickle(_body: dict[str, Any], _times: int) -> int:
        asked.set()
        return TRICKLE

    receiver.answer = trickle
    pusher = make(at(receiver.port, timeout="1h"))
    pusher.put(many("ab", 2))
    assert asked.wait(WAIT_S)
    pusher.close()
    receiver.answer = lambda _body, _times: 200
    again = make(at(receiver.port))
    assert again.wait_idle(WAIT_S)
    assert sorted(receiver.taken) == ["a-0", "a-1", "b-0", "b-1"]


def test_one_that_hangs_is_asked_again_and_holds_up_no_other_record(
    make: Callable[..., RevisionPusher], receiver: Receiver
) -> None:
    receiver.answer = lambda body, times: TRICKLE if body["revision_id"] == "a-0" and times == 1 else 200
    pusher = make(at(receiver.port, timeout="1s", parallel=2))
    pusher.put(many("ab", 3))
    assert pusher.wait_idle(WAIT_S)
    assert in_order(receiver.taken, "a") == in_order(receiver.taken, "b") == [0, 1, 2]
    assert receiver.seen["a-0"] == 2


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_address_answers_none_overtakes_another_of_its_record(
    make: Callable[..., RevisionPusher], receiver: Receiver, seed: int
) -> None:
    """Over restarts too: what comes is always one whose predecessors were taken, and in the end all were."""
    chance, early = random.Random(seed), list[str]()
    receiver.headers = {"Connection": "close"}
    lock = threading.Lock()

    def answer(body: dict[str, Any], _times: int) -> int | None:
        with lock, receiver.lock:
            ahead = {f"{body['record_id']}-{number}" for number in range(body["revision"])}
            if not ahead <= set(receiver.taken):
                early.append(body["revision_id"])
            return chance.choice([200, 200, 200, 500, 404, 503, 429, None])

    receiver.answer = answer
    everything = many("abcdefgh", 12)
    for part in range(4):
        with_restart = make(at(receiver.port, attempts=1_000_000, parallel=6))
        with_restart.put(everything[: (part + 1) * 24])
        if part < 3:
            with_restart.close()
    assert with_restart.wait_idle(WAIT_S)
    assert early == []
    assert set(receiver.taken) == {each.revision_id for each in everything}


def test_a_damaged_queue_is_refused_and_nothing_is_lost_silently(tmp_path: Path) -> None:
    path = tmp_path / "revisions.db"
    path.write_bytes(b"no database at all, and long enough to be none" * 50)
    with pytest.raises(StateError, match="found no queue of revisions that can be read"):
        RevisionPusher(path, [at(1)]).open()
    assert path.read_bytes().startswith(b"no database")
