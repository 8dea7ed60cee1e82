"""The process of the in-process runner, after its owner was killed."""

from __future__ import annotations

import pickle
import socket
from multiprocessing.connection import Connection

import pytest

from crossline.runtime.workers import in_process_worker


def test_an_owner_that_is_killed_before_it_has_read_all_is_no_news(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A socket that is closed with unread data is reset; one that is read to its end just ends."""
    ours, theirs = socket.socketpair()
    owner, served = Connection(theirs.detach()), Connection(ours.detach())
    owner.send_bytes(pickle.dumps(in_process_worker.Setup(None, None, 1, None, {}, {})))  # type: ignore[arg-type] # not used
    served.send_bytes(b"an answer that nobody reads")
    owner.close()
    monkeypatch.setattr(in_process_worker, "Connection", lambda _: served)
    in_process_worker.main()
    served.close()
    assert capfd.readouterr() == ("", "")
