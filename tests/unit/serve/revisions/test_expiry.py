"""What waits for an address that takes nothing is given up after a time, and kept to be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from connectors.receiving import Receiver
from crossline.serve.revisions.pusher import RevisionPusher

from .kit import WAIT_S, at, many, revision

START = 1_767_225_600_000


def test_what_is_not_accepted_for_too_long_is_given_up_and_kept(
    make: Callable[..., RevisionPusher], receiver: Receiver
) -> None:
    now, asked = [START], threading.Semaphore(0)

    def busy(_body: dict[str, Any], _times: int) -> int:
        asked.release()
        return 503

    receiver.answer = busy
    pusher = make(at(receiver.port, give_up="1h"), clock_ms=lambda: now[0])
    receiver_seconds = pytest.MonkeyPatch()
    receiver_seconds.setattr("connectors.receiving.is_signed", lambda *_: True)  # the clock is not the receiver's
    with capture_logs():
        pusher.put(many("a", 2))
        assert asked.acquire(timeout=WAIT_S)
        assert asked.acquire(timeout=WAIT_S)
        assert pusher.states()[0].pending == 2
        now[0] += 3_600_000
        assert pusher.wait_idle(WAIT_S)
    assert {(each.revision_id, each.status) for each in pusher.failed()} == {("a-0", "expired"), ("a-1", "expired")}
    assert all("busy: 503" in each.why for each in pusher.failed())
    receiver_seconds.undo()


def test_many_that_are_too_old_are_given_up_at_once(
    make: Callable[..., RevisionPusher], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one after the other, each with an attempt of its own; and what is not too old waits on."""
    now, asked, begin = [START], threading.Semaphore(0), threading.Event()

    def busy(_body: dict[str, Any], _times: int) -> int:
        begin.wait(WAIT_S)
        asked.release()
        return 503

    receiver.answer = busy
    monkeypatch.setattr("connectors.receiving.is_signed", lambda *_: True)  # the clock is not the receiver's
    pusher = make(at(receiver.port, give_up="1h", parallel=2), clock_ms=lambda: now[0])
    pusher.put([revision(f"r{number}", part) for part in range(2) for number in range(500)])
    now[0] += 3_600_000
    pusher.put([revision("r3", 2), revision("new", 0)])
    with capture_logs():
        begin.set()
        for _ in range(8):
            assert asked.acquire(timeout=WAIT_S)
        assert len(receiver.got) < 40
        (state,) = pusher.states()
        assert (state.expired, state.pending) == (1_000, 2)
        receiver.answer = lambda _body, _times: 200
        assert pusher.wait_idle(WAIT_S)
    assert sorted(receiver.taken) == ["new-0", "r3-2"]
    assert len(pusher.failed(2_000)) == 1_000
