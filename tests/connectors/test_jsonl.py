"""JSON lines: torn lines, files of others, dead letters, disks that are full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossline.connectors.base import Delivery
from crossline.connectors.jsonl import JsonlSink
from crossline.core.errors import PermanentError, SinkError
from crossline.core.values import DeadLetter

from .makers import alert, delivery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "alerts.jsonl"


def opened(path: Path, pipeline: str = "p", **options: Any) -> JsonlSink:
    sink = JsonlSink(path, pipeline, clock_ms=lambda: 0, **options)
    sink.open()
    return sink


def records(path: Path) -> list[str]:
    return [json.loads(line)["record_id"] for line in path.read_text().splitlines()]


def test_a_line_is_the_alert_with_the_time_of_its_delivery(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    assert json.loads(path.read_text()) == alert("t1", delivered_at="1970-01-01T00:00:00.000Z")


def test_what_is_there_is_never_taken_back(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1", "t2"))
    before = path.read_bytes()
    with path.open("rb") as follower:
        assert follower.read() == before
        again = JsonlSink(path, "p", clock_ms=lambda: 10**12)
        again.open()
        again.deliver(delivery(0, "t1", "t2"))
        again.deliver(delivery(1, "t3"))
        assert [json.loads(line)["record_id"] for line in follower] == ["t3"]
    assert path.read_bytes().startswith(before)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_line_is_cut_off_wherever_the_kill_fell(path: Path, cut: int) -> None:
    opened(path).deliver(delivery(0, "t1", "t2"))
    path.write_bytes(path.read_bytes()[:-cut])
    opened(path).deliver(delivery(0, "t1", "t2"))
    assert records(path) == ["t1", "t2"]


def test_a_torn_line_longer_than_a_block(path: Path) -> None:
    opened(path).deliver(Delivery("p", 0, alerts=[alert("t1"), alert("t2", message="x" * 200_000)]))
    path.write_bytes(path.read_bytes()[:-1])
    opened(path).deliver(delivery(0, "t1", "t2"))
    assert records(path) == ["t1", "t2"]


def test_a_file_that_has_only_a_torn_line(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    path.write_bytes(path.read_bytes()[:20])
    opened(path).deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_a_kill_between_the_note_and_the_first_line(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    before = path.read_bytes()
    sink.deliver(delivery(1, "t2"))
    path.write_bytes(before)
    opened(path).deliver(delivery(1, "t2"))
    assert records(path) == ["t1", "t2"]


def test_batches_without_alerts_leave_no_trace(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0))
    assert not list(path.parent.iterdir())
    sink.deliver(Delivery("p", 1, alerts=[alert("t1", kind="shadow"), alert("t2", emit_to_sink=False)]))
    assert not list(path.parent.iterdir())


def test_shadow_alerts_where_asked_for(path: Path) -> None:
    opened(path, shadow=True).deliver(Delivery("p", 1, alerts=[alert("t1", kind="shadow")]))
    assert records(path) == ["t1"]


def test_a_file_of_someone_else_is_refused_and_left_alone(path: Path) -> None:
    path.write_text("my notes\n")
    with pytest.raises(PermanentError, match=r"did not write .*alerts\.jsonl\.state"):
        opened(path)
    assert path.read_text() == "my notes\n"


def test_an_empty_file_is_taken(path: Path) -> None:
    path.touch()
    opened(path).deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_a_file_of_another_pipeline_is_refused(path: Path) -> None:
    opened(path, "cards").deliver(delivery(0, "t1"))
    with pytest.raises(PermanentError, match="belongs to pipeline 'cards', found 'p'"):
        opened(path)


def test_a_damaged_note_is_refused(path: Path) -> None:
    opened(path).deliver(delivery(0, "t1"))
    path.with_name("alerts.jsonl.state").write_text("{")
    with pytest.raises(PermanentError, match="damaged"):
        opened(path)


def test_a_file_moved_away_is_begun_again(path: Path) -> None:
    sink = opened(path)
    sink.deliver(delivery(0, "t1"))
    sink.deliver(delivery(1, "t2"))
    path.rename(path.with_suffix(".old"))
    sink.deliver(delivery(1, "t3"))
    sink.deliver(delivery(1, "t3", "t4"))
    assert records(path) == ["t3", "t4"]


def test_a_disk_that_does_not_take_it_is_tried_again(path: Path) -> None:
    sink = opened(path)
    path.mkdir()
    with pytest.raises(SinkError, match="cannot be written now"):
        sink.deliver(delivery(0, "t1"))
    path.rmdir()
    sink.deliver(delivery(0, "t1"))
    assert records(path) == ["t1"]


def test_dead_letters_go_to_their_own_file_once(path: Path) -> None:
    dead = path.with_name("dead.jsonl")
    letters = [
        DeadLetter("payments", "bad_json", "no end", "in/a", 5, b'{"a"', None),
        DeadLetter("payments", "bad_json", "not UTF-8", "in/a", 9, b"\xff", None),
        DeadLetter("payments", "duplicate_id", "came before", "in/a", 9, None, "t1"),
    ]
    for _ in range(2):
        opened(path, dead_letters=dead).deliver(Delivery("p", 0, dead=letters))
    common = {"schema_version": 1, "stream": "payments", "partition": "in/a"}
    bad = {**common, "reason": "bad_json", "record_id": None}
    assert [json.loads(line) for line in dead.read_text().splitlines()] == [
        {**bad, "detail": "no end", "offset": 5, "raw": '{"a"'},
        {**bad, "detail": "not UTF-8", "offset": 9, "raw_base64": "/w=="},
        {**common, "reason": "duplicate_id", "detail": "came before", "offset": 9, "record_id": "t1", "raw": None},
    ]
    assert not path.exists()


def test_a_pipeline_begun_again_and_killed_in_its_midst(path: Path) -> None:
    opened(path).deliver(delivery(5, "t1", "t2"))
    opened(path).deliver(delivery(0, "t1"))
    # Higher than before, and still compared with the whole file.
    opened(path).deliver(delivery(6, "t2", "t3"))
    assert records(path) == ["t1", "t2", "t3"]
