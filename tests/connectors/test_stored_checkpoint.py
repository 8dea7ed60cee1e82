"""A checkpoint on a real object store: lease, release, the next run; outboxes on it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from crossline.basics.errors import StateError
from crossline.io.objects.location import under
from crossline.io.outbox.sink import OutboxSink, waiting_in
from crossline.io.sinks.base import Delivery
from crossline.runtime.snapshot.checkpoint import SourceMark
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint, claim_checkpoint, read_folder
from crossline.runtime.state_log.state_log import StateLog, shards_in

if TYPE_CHECKING:
    from dev.services.s3 import LocalS3

WAIT_S = 120.0


@pytest.fixture
def uri(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{s3_server.bucket}/{tmp_path.name}/shop"


def spark_planned(folder: Path, log: str, batch: int) -> None:
    (folder / "spark" / log).mkdir(parents=True, exist_ok=True)
    (folder / "spark" / log / str(batch)).write_text(f"v1\n{log} {batch}")


def test_the_next_run_goes_on_from_what_the_last_one_noted(uri: str) -> None:
    never = threading.Event()
    marks = [SourceMark("payments", "files")]
    first = claim_checkpoint(uri)
    assert isinstance(first, StoredCheckpoint)
    assert first.owned_by("shop", marks) == ["payments"]
    spark_planned(first.folder, "offsets", 0)
    first.publish(never)
    with pytest.raises(StateError, match=f"the checkpoint {uri} is held by another run of this pipeline"):
        claim_checkpoint(uri)
    with read_folder(uri) as looked:
        assert (looked / "spark" / "offsets" / "0").read_text() == "v1\noffsets 0"
    spark_planned(first.folder, "commits", 0)
    work = first.folder
    first.release()
    first.release()
    assert not work.exists()

    second = claim_checkpoint(uri)
    assert (second.folder / "spark" / "commits" / "0").read_text() == "v1\ncommits 0"
    with pytest.raises(StateError, match=f"{uri} is the checkpoint of pipeline shop, found other"):
        second.owned_by("other", marks)
    second.release()


def test_a_store_that_is_down_is_waited_for(s3_server: LocalS3, uri: str) -> None:
    held = claim_checkpoint(uri)
    (held.folder / "snapshot.json").write_text("{}")
    log = StateLog(held.state_root, 0)
    s3_server.kill()
    done: list[str] = []

    def work(name: str, call: Callable[[], Any]) -> None:
        call()
        done.append(name)

    threads = [
        threading.Thread(target=work, args=("note", lambda: held.publish(threading.Event()))),
        threading.Thread(target=work, args=("segment", lambda: log.write(0, b"a segment"))),
    ]
    for thread in threads:
        thread.start()
    threads[0].join(2.0)
    assert not done
    s3_server.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert sorted(done) == ["note", "segment"]
    assert shards_in(held.state_root) == 1
    assert [each.last for each in log.segments()] == [0]
    held.release()


class Taking:
    """A sink that takes nothing until ``open`` is set."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.all_here = threading.Event()
        self.wanted = 3

    def open(self) -> None:
        pass

    def deliver(self, delivery: Delivery) -> None:
        self.taken.append(delivery.batch_id)
        if len(self.taken) == self.wanted:
            self.all_here.set()

    def close(self) -> None:
        pass


def test_what_waits_for_a_sink_is_there_for_another_machine(uri: str) -> None:
    held = claim_checkpoint(uri)
    store = held.sink_store("webhook-1")
    never = OutboxSink(Taking(), store)  # type: ignore[arg-type]
    for batch in range(3):
        never.deliver(Delivery("shop", batch))  # not opened: no one takes them
    assert waiting_in(store) == 3
    assert held.sinks_waiting() == ["webhook-1"]
    held.release()

    held = claim_checkpoint(uri)
    sink = Taking()
    behind = OutboxSink(sink, held.sink_store("webhook-1"))  # type: ignore[arg-type]
    behind.open()
    assert sink.all_here.wait(WAIT_S)
    behind.catch_up(threading.Event())
    behind.close()
    assert sink.taken == [0, 1, 2]
    assert waiting_in(held.sink_store("webhook-1")) == 0
    held.release()


def test_state_is_below_the_prefix(uri: str) -> None:
    held = claim_checkpoint(uri)
    assert held.state_root == under(uri, "state")
    held.release()
