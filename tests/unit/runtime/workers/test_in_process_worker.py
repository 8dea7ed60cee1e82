"""The process of the in-process runner: what it has in memory, and the death of its owner."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Mapping
from multiprocessing.connection import Connection

import pytest

from crossline.io.kafka.unavailable_range import Place, RangeUnavailableError
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


class Tail:
    """Stands for the reader of a topic: what it has in memory, and what it is asked for."""

    def __init__(self, count: int, end: int, *, broken: bool = False, most: int | None = None) -> None:
        self.count, self.end, self.broken, self.most = count, end, broken, MOST if most is None else most
        self.waits: list[float] = []

    def buffered(self, starts: Mapping[Place, int], wait_s: float, enough: int) -> tuple[int, dict[Place, int]]:
        assert enough == self.most + 1
        if self.broken:
            raise RangeUnavailableError("deleted")
        self.waits.append(wait_s)
        return self.count, dict.fromkeys(starts, self.end)


MOST = 5
A, B = ("a", 0), ("b", 0)


def buffered(each_max: Mapping[str, int] | None = None, **tails: Tail) -> in_process_worker.Ends | None:
    worker = in_process_worker.InProcessWorker(
        in_process_worker.Setup(None, None, 1, None, {}, {})  # type: ignore[arg-type] # not used
    )
    worker._tails = tails  # type: ignore[assignment] # as far as they are used
    starts = {name: {(name, 0): 3} for name in tails}
    return worker.buffered(in_process_worker.BufferedRequest(starts, 0.0, MOST, each_max or {}))


def test_what_is_in_memory_is_the_next_batch() -> None:
    silent, busy = Tail(0, 3), Tail(MOST, 8)
    assert buffered(a=silent, b=busy) == {"a": {A: 3}, "b": {B: 8}}
    assert buffered(a=busy, b=silent) == {"a": {A: 8}, "b": {B: 3}}
    assert silent.waits[-1] == 0, "it waits for one stream although another has records"


def test_nothing_in_memory_is_no_batch() -> None:
    assert buffered(a=Tail(0, 3), b=Tail(0, 4)) == {}


def test_spark_plans_where_more_is_in_memory_than_a_batch_has_or_nothing_can_be_read() -> None:
    assert buffered(a=Tail(MOST, 8), b=Tail(1, 4)) is None
    assert buffered(a=Tail(1, 4), b=Tail(0, 0, broken=True)) is None


def test_a_stream_has_no_more_records_in_a_batch_than_it_may() -> None:
    """Though all streams together may have more."""
    assert buffered({"a": 2}, a=Tail(2, 5, most=2), b=Tail(1, 4)) == {"a": {A: 5}, "b": {B: 4}}
    assert buffered({"a": 2}, a=Tail(3, 6, most=2), b=Tail(1, 4)) is None
    assert buffered({"a": 2, "b": 2}, a=Tail(0, 3, most=2), b=Tail(3, 6, most=2)) is None
    assert buffered({"a": MOST + 9}, a=Tail(MOST, 8), b=Tail(0, 3)) == {"a": {A: 8}, "b": {B: 3}}
