"""The outbox: its sink gets every delivery, in order, once it is reachable again."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import PermanentError, SinkError, StateError
from crossline.evaluate.decisions.columns import DecisionColumns, DecisionHead
from crossline.io.outbox import sink as module
from crossline.io.outbox.encoding import decode_delivery, encode_delivery
from crossline.io.outbox.sink import Backlog, OutboxSink, waiting_in
from crossline.io.sinks.base import Delivery, LateRecord, RetryPolicy
from crossline.io.sinks.decisions import Decisions

from .makers import alert, delivery
from .test_decisions import decision

QUICK = RetryPolicy(initial_ms=1, max_ms=1)
WAIT_S = 30.0


class Shaky:
    """Takes batches while it is ``up``, and fails with ``error`` else."""

    def __init__(self) -> None:
        self.up = threading.Event()
        self.asked = threading.Event()
        self.error: Exception = SinkError("down")
        self.taken: list[Delivery] = []
        self.closed = 0

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Shaky:
        raise NotImplementedError

    def open(self) -> None: ...

    def deliver(self, delivery: Delivery) -> None:
        self.asked.set()
        if not self.up.is_set():
            raise self.error
        self.taken.append(delivery)

    def close(self) -> None:
        self.closed += 1

    def records(self) -> list[str]:
        return [each["record_id"] for batch in self.taken for each in batch.alerts]


@pytest.fixture
def shaky() -> Shaky:
    return Shaky()


@pytest.fixture
def sink(shaky: Shaky, tmp_path: Path) -> Iterator[OutboxSink]:
    made = OutboxSink(shaky, tmp_path / "behind", QUICK)
    made.open()
    yield made
    made.close()


def caught_up(sink: OutboxSink) -> None:
    ended = threading.Timer(WAIT_S, lambda: None)
    ended.start()
    sink.catch_up(ended.finished)
    assert sink.backlog() == Backlog(0, None)
    ended.cancel()


def test_a_sink_that_never_ends_does_not_hold_the_end(
    shaky: Shaky, sink: OutboxSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CLOSE_S_MAX", 0.05)
    hanging, ended = threading.Event(), threading.Event()

    def deliver(_: Delivery) -> None:
        hanging.set()
        ended.wait(WAIT_S)

    monkeypatch.setattr(shaky, "deliver", deliver)
    sink.deliver(delivery(0, "a"))
    assert hanging.wait(WAIT_S)
    with pytest.raises(SinkError, match=r"Shaky has not ended within 0\.05 s of the stop"):
        sink.close()
    assert waiting_in(sink.folder) == 1, "the next run gives it"
    assert shaky.closed == 0, "it is at work"
    ended.set()
    sink.close()


def test_batches_do_not_wait_and_come_in_order(shaky: Shaky, sink: OutboxSink) -> None:
    with capture_logs():
        for number in range(20):
            sink.deliver(delivery(number, str(number)))
        assert shaky.asked.wait(WAIT_S)
        assert sink.backlog().batches == 20
        assert sink.backlog().since_ms is not None
        shaky.up.set()
        caught_up(sink)
    assert shaky.records() == [str(number) for number in range(20)]
    assert waiting_in(sink.folder) == 0


@pytest.mark.parametrize("held_max", [0, 1_500, 1 << 20])
def test_what_was_just_stored_is_not_read_again(
    shaky: Shaky, sink: OutboxSink, monkeypatch: pytest.MonkeyPatch, held_max: int
) -> None:
    """Up to a bound; beyond it, what comes from the disk is the same."""
    monkeypatch.setattr(module, "HELD_BYTES_MAX", held_max)
    read: list[str] = []

    def decoded(raw: bytes, where: str) -> Delivery:
        read.append(where)
        return decode_delivery(raw, where)

    monkeypatch.setattr(module, "decode_delivery", decoded)
    given = [delivery(number, str(number)) for number in range(6)]
    size = len(encode_delivery(given[0]))
    with capture_logs():
        for each in given:
            sink.deliver(each)
        assert shaky.asked.wait(WAIT_S)
        shaky.up.set()
        caught_up(sink)
        for each in given:
            sink.deliver(each)
            caught_up(sink)
    assert shaky.records() == [str(number) for number in [*range(6), *range(6)]]
    held = min(6, held_max // size)
    assert len(read) == 6 - held + (0 if held else 6), "what was given makes room"


def test_what_a_run_leaves_the_next_one_gives(shaky: Shaky, sink: OutboxSink) -> None:
    with capture_logs():
        sink.deliver(delivery(8, "a"))
        sink.deliver(delivery(10, "b"))
        assert shaky.asked.wait(WAIT_S)
        sink.close()
    assert waiting_in(sink.folder) == 2
    (sink.folder / "000000000011.tmp").write_bytes(b"cut off")
    later = Shaky()
    later.up.set()
    again = OutboxSink(later, sink.folder, QUICK)
    again.open()
    caught_up(again)
    again.close()
    assert later.records() == ["a", "b"]
    assert [path.name for path in sink.folder.iterdir()] == []


def test_one_that_fails_for_good_is_reported_and_loses_nothing(
    shaky: Shaky, sink: OutboxSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_MS", 1)
    shaky.error = PermanentError("the table is another's")
    with capture_logs() as logs:
        sink.deliver(delivery(0, "a"))
        with pytest.raises(PermanentError, match="another's"):
            sink.catch_up(threading.Event())
        sink.deliver(delivery(1, "b"))
        shaky.up.set()
        while sink.backlog().batches:
            shaky.asked.clear()
            shaky.asked.wait(0.01)
    assert shaky.records() == ["a", "b"]
    assert {each["event"] for each in logs if each["log_level"] == "error"} == {"a sink fails; trying again in a while"}


def test_a_bug_of_the_sink_stops_no_other_sink(shaky: Shaky, sink: OutboxSink) -> None:
    shaky.error = KeyError("a bug")
    with capture_logs():
        sink.deliver(delivery(0, "a"))
        with pytest.raises(SinkError, match="a bug"):
            sink.catch_up(threading.Event())
        sink.close()
    assert waiting_in(sink.folder) == 1
    assert shaky.closed == 1


def test_a_disk_that_takes_nothing_holds_the_batch(sink: OutboxSink) -> None:
    for path in sink.folder.iterdir():
        path.unlink()
    sink.folder.rmdir()
    with pytest.raises(SinkError, match="what Shaky is to get cannot be written: No such file"):
        sink.deliver(delivery(0, "a"))
    assert sink.backlog().batches == 0


class Frozen(Shaky):
    """Waits in ``open`` until it is to stop, as for a server that is frozen."""

    def use_cancel_token(self, stop: threading.Event) -> None:
        self.stop = stop

    def open(self) -> None:
        self.asked.set()
        assert self.stop.wait(WAIT_S)
        raise SinkError("stopped")


def test_a_stop_ends_the_wait_while_it_is_opened(tmp_path: Path) -> None:
    frozen = Frozen()
    sink = OutboxSink(frozen, tmp_path / "behind", QUICK)
    sink.open()
    sink.deliver(delivery(0, "a"))
    with capture_logs() as logs:
        assert frozen.asked.wait(WAIT_S)
        sink.close()
    assert waiting_in(sink.folder) == 1
    assert logs == []


def test_what_waits_is_synced_with_its_name(sink: OutboxSink, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with capture_logs():
        sink.deliver(delivery(0, "a"))
    assert synced[0].startswith("000000000001.json.")
    assert synced[1:] == ["behind"], "after the file has its name, its folder"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"schema_version": 1}', b"\xff"])
def test_what_is_damaged_is_reported_with_its_place(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(StateError, match=r"behind/7.json: damaged .* restore the file"):
        decode_delivery(content, str(tmp_path / "behind/7.json"))


def test_another_version_is_reported(tmp_path: Path) -> None:
    body = {**json.loads(encode_delivery(delivery(0))), "schema_version": 2}
    with pytest.raises(StateError, match="written by another version"):
        decode_delivery(json.dumps(body).encode(), str(tmp_path))


def test_decisions_that_came_as_lines_come_back() -> None:
    values = [decision("t1", message="a\nb", score=2.5), decision("t2")]
    columns = DecisionColumns.of_values(values, [orjson.dumps(each) for each in values])
    given = Delivery("p", 3, decisions=Decisions(columns))
    assert list(decode_delivery(encode_delivery(given), "here").decisions) == values


TEXT_OF_HEADS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
IDS = st.text(st.characters(), max_size=8).map(lambda text: text.encode(errors="surrogatepass"))
HEADS = st.builds(
    DecisionHead,
    kind=st.just("decision"),
    decision=TEXT_OF_HEADS,
    score=st.none() | st.integers(0, 100) | st.floats(0, 100),
    policy_version=st.integers(1, 9),
    revision=st.integers(0, 3),
    revises=st.none() | TEXT_OF_HEADS,
    because=st.none() | TEXT_OF_HEADS,
    stream=TEXT_OF_HEADS,
    decided_at=st.none() | TEXT_OF_HEADS,
    sink_topic=st.none() | TEXT_OF_HEADS,
)
ROWS = st.lists(st.tuples(IDS, IDS, HEADS, st.integers(-(2**60), 2**60), st.booleans()), max_size=5)


@given(ROWS)
def test_columns_come_back_as_they_were(rows: list[tuple[bytes, bytes, DecisionHead, int, bool]]) -> None:
    heads = list(dict.fromkeys(head for _, _, head, _, _ in rows))
    values = [decision(f"t{number}", message="a\nb") for number in range(len(rows))]
    columns = DecisionColumns(
        lines=[orjson.dumps(each) for each in values],
        ids=[own for own, *_ in rows],
        record_ids=[record for _, record, *_ in rows],
        head=np.array([heads.index(head) for _, _, head, _, _ in rows], np.int64),
        heads=heads,
        event_ms=np.array([ms for *_, ms, _ in rows], np.int64),
        values={number: values[number] for number, row in enumerate(rows) if row[-1]},
    )
    given = Delivery("p", 3, [alert("a")], decisions=Decisions(columns), began_ms=7)
    back = decode_delivery(encode_delivery(given), "here")
    assert (back.alerts, back.batch_id, back.began_ms) == (given.alerts, 3, 7)
    assert isinstance(back.decisions, Decisions)
    found = back.decisions.columns
    for name in ("lines", "ids", "record_ids", "heads", "values"):
        assert getattr(found, name) == getattr(columns, name)
    for name in ("head", "event_ms"):
        np.testing.assert_array_equal(getattr(found, name), getattr(columns, name), strict=True)


@pytest.mark.parametrize("cut_bytes", [1, 40, 300])
def test_lines_that_are_cut_off_are_reported(cut_bytes: int) -> None:
    values = [decision(f"t{number}") for number in range(3)]
    lines = [orjson.dumps(each) for each in values]
    whole = encode_delivery(Delivery("p", 3, decisions=Decisions(DecisionColumns.of_values(values, lines))))
    head, *_ = whole.split(b"\n")
    bare = orjson.dumps({name: value for name, value in orjson.loads(head).items() if name != "columns"})
    for raw in (whole[:-cut_bytes], head, bare + whole[len(head) :]):
        with pytest.raises(StateError, match=r"here: damaged .* restore the file"):
            decode_delivery(raw, "here")


def test_another_version_of_another_shape_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="written by another version"):
        decode_delivery(b'{"schema_version": 2}', str(tmp_path))


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**90), 2**90) | st.floats(allow_nan=False, allow_infinity=False)
RAW = st.none() | st.binary(max_size=20)
DEAD = st.builds(DeadLetter, TEXT, TEXT, TEXT, TEXT, st.integers(0, 2**60), RAW, st.none() | TEXT)
WHEN = st.integers(-(2**60), 2**60)
LATE = st.builds(LateRecord, TEXT, TEXT, WHEN, WHEN, WHEN, TEXT, WHEN, RAW)
ALERTS = st.builds(lambda text, value: alert(text, value=value, key={"a": text}), TEXT, NUMBERS)


@given(
    st.lists(ALERTS, max_size=3),
    st.lists(DEAD, max_size=3),
    st.lists(LATE, max_size=3),
    st.lists(st.tuples(TEXT, WHEN), max_size=3),
    st.lists(st.binary(max_size=9), max_size=3),
)
def test_a_delivery_comes_back_as_it_was(
    alerts: list[dict[str, Any]],
    dead: list[DeadLetter],
    late: list[LateRecord],
    positions: list[tuple[str, int]],
    reported: list[bytes],
) -> None:
    whole = Delivery(
        "p",
        3,
        alerts,
        dead,
        late,
        {"records": 9, "spent_ms": {"judge": 0.5}},
        [{"event": "published"}],
        positions,
        [],
        reported,
    )
    assert decode_delivery(encode_delivery(whole), "here") == whole
