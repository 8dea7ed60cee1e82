"""One driver at a time, whatever stands still, dies or comes at the same moment."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import LocalFiles
from crossline.runtime.snapshot import lease as lease_module
from crossline.runtime.snapshot.lease import CLAIMS, MARK, Lease


@pytest.fixture
def store(tmp_path: Path) -> LocalFiles:
    return LocalFiles(tmp_path / "store")


def lease(store: LocalFiles, on_lost: Callable[[StateError], None] = lambda _: None) -> Lease:
    return Lease(store, "s3://bucket/p", lambda: None, on_lost)


def claims(store: LocalFiles) -> list[str]:
    return [name for name in store.names(CLAIMS) if not name.endswith(f"-{MARK}.json")]


def of_another_machine(store: LocalFiles) -> None:
    (name,) = claims(store)
    about = orjson.loads(store.get(f"{CLAIMS}/{name}"))
    store.put(f"{CLAIMS}/{name}", orjson.dumps({**about, "machine": "another", "host": "far"}))


def test_a_second_one_is_refused_while_the_first_lives_and_begins_once_it_let_go(store: LocalFiles) -> None:
    first, second = lease(store), lease(store)
    first.take([])
    with pytest.raises(StateError, match=f"held by another run of this pipeline \\(process {os.getpid()} on "):
        second.take([])
    first.still_held()
    first.release()
    first.release()
    second.take([first.epoch])
    assert second.epoch > first.epoch
    second.still_held()
    second.release()
    assert claims(store) == []


def test_of_a_process_that_died_here_the_next_one_takes_over_at_once(store: LocalFiles) -> None:
    code = (
        "import sys, os; from pathlib import Path; from crossline.io.objects.file_stores import LocalFiles; "
        "from crossline.runtime.snapshot.lease import Lease; "
        "Lease(LocalFiles(Path(sys.argv[1])), 'p', lambda: None, print).take([7]); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store.root)], check=False)
    assert done.returncode == 9
    assert len(store.names(CLAIMS)) == 1
    second = lease(store)
    second.take([7])
    assert second.epoch == 9
    second.release()


def test_of_another_machine_it_is_waited_for(store: LocalFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is renewed is alive; one that is not, for as long as a lease, is dead, and finds out."""
    monkeypatch.setattr(lease_module, "_POLL_S", 0.01)
    monkeypatch.setattr(lease_module, "RENEW_S", 0.05)
    first = lease(store)
    first.take([])
    of_another_machine(store)
    with pytest.raises(StateError, match="held by another run"):
        lease(store).take([])  # it sees that the first is renewed
    monkeypatch.setattr(lease_module, "RENEW_S", 3600.0)
    monkeypatch.setattr(lease_module, "LEASE_S", 0.2)
    second = lease(store)
    stopped = lease(store)
    first.release()
    stopped.take([])
    of_another_machine(store)
    second.take([])
    with pytest.raises(StateError, match="taken over by another run"):
        stopped.still_held()
    second.still_held()
    stopped.release()
    second.still_held()
    second.release()


def test_a_run_that_is_taken_over_from_is_reported_though_it_judges_nothing(
    store: LocalFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.02)
    body: queue.Queue[StateError] = queue.Queue()
    cut_off = lease(store, body.put)
    cut_off.take([])
    store.clear(CLAIMS)  # as who takes over does
    assert "taken over by another run" in str(body.get(timeout=60))
    cut_off.release()


def test_of_those_that_come_at_one_moment_no_two_begin(store: LocalFiles) -> None:
    for _ in range(10):
        all_, begun, together = [lease(store) for _ in range(3)], [], threading.Barrier(3)

        def come(one: Lease, begun: list[Lease] = begun, together: threading.Barrier = together) -> None:
            together.wait()
            try:
                one.take([])
                begun.append(one)
            except StateError:
                pass

        threads = [threading.Thread(target=come, args=(one,)) for one in all_]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(begun) <= 1
        for one in begun:
            one.still_held()
            one.release()
        assert claims(store) == []
        assert len(store.names(CLAIMS)) <= 1  # the mark of the last one that let go


class Late(LocalFiles):
    """The next put of a claim reaches the store when ``arrive`` is called, whatever stands there by then."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.late, self.under_way = False, threading.Event()
        self._arrives = threading.Event()

    def put(self, name: str, data: bytes) -> None:
        if self.late and name.startswith(CLAIMS):
            self.late = False
            self.under_way.set()
            assert self._arrives.wait(60)
        super().put(name, data)

    def arrive(self) -> None:
        self._arrives.set()


def test_a_late_renewal_does_not_return_a_lease_that_another_had_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that took over has even ended by then: nothing of it is there but the mark that it leaves."""
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    monkeypatch.setattr(lease_module, "LEASE_S", 0.0)
    monkeypatch.setattr(lease_module, "_POLL_S", 0.01)
    store, body = Late(tmp_path / "store"), queue.Queue[StateError]()
    frozen = lease(store, body.put)
    frozen.take([])
    store.late = True
    assert store.under_way.wait(60)
    of_another_machine(store)
    monkeypatch.setattr(lease_module, "RENEW_S", 3600.0)
    second = lease(LocalFiles(store.root))
    second.take([])
    second.release()
    store.arrive()
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    with pytest.raises(StateError, match="taken over by another run"):
        frozen.still_held()
    assert "taken over by another run" in str(body.get(timeout=60))
    frozen.release()
    third = lease(store)
    third.take([])
    assert third.epoch > second.epoch
    third.release()


def test_a_number_is_never_given_twice_though_one_began_and_ended_between_two_looks(store: LocalFiles) -> None:
    quick = lease(store)
    quick.take([])
    quick.release()
    slow = lease(store)
    slow.take([])  # as it read notes before the quick one wrote any
    assert slow.epoch == quick.epoch + 1
    slow.release()
