"""``crossline.Detector``: files that save it, what refuses them, and batches that fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

import crossline as cl
from crossline.basics import wire

STREAM = """
schema_version: 1
streams:
  taps:
    id: id
    event_time: {field: at}
    fields: {id: string, card: string, at: integer}
"""
TWO: dict[str, Any] = {
    "rule_id": "two",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "taps",
    "group_by": "card",
    "window": "10s",
    "aggregation_type": "count",
    "aggregation_threshold": 2,
    "action": "block",
    "score": 60,
}
POLICY = "schema_version: 1\nversion: 1\nbands: [{from: 50, decision: block}]\n"
FIRST, SECOND = {"id": "1", "card": "c", "at": 1_000}, {"id": "2", "card": "c", "at": 2_000}
Make = Callable[..., cl.Detector]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "policy.yaml").write_text(POLICY)

    def detector(*rules: dict[str, Any], **more: Any) -> cl.Detector:
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(list(rules) or [TWO]))
        return cl.Detector(tmp_path / "rules.yaml", more.pop("stream", tmp_path / "stream.yaml"), **more)

    return detector


def ids(alerts: cl.Alerts) -> list[str]:
    return [alert["record_id"] for alert in alerts]


def test_it_remembers_between_batches(make: Make) -> None:
    detector = make()
    assert ids(detector.process([FIRST]).alerts) == []
    assert ids(detector.process(pa.Table.from_pylist([SECOND])).alerts) == ["2"]
    assert (detector.batches, detector.rows) == (2, 2)


def test_with_a_policy_each_record_gets_a_decision(make: Make, tmp_path: Path) -> None:
    _, decisions = make(policy=tmp_path / "policy.yaml").process([FIRST, SECOND])
    assert [(each["record_id"], each["decision"], each["score"]) for each in decisions] == [
        ("1", "allow", 0),
        ("2", "block", 60),
    ]
    table = decisions.to_arrow()
    assert table.schema == cl.DECISION_SCHEMA
    assert table.column("decision").to_pylist() == ["allow", "block"]
    assert [why["rule_id"] for why in json.loads(table.column("reasons")[1].as_py())] == ["two"]
    assert json.loads(table.column("json")[1].as_py()) == decisions[1]
    assert table.column("event_time")[1].as_py().timestamp() == 2.0


def test_without_a_policy_there_are_none(make: Make) -> None:
    decisions = make().process([FIRST]).decisions
    assert (len(decisions), decisions.to_arrow().num_rows) == (0, 0)


def test_a_saved_one_goes_on(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.bin"
    detector = make()
    detector.process([FIRST])
    detector.save(path)
    other = make().load(path)
    assert (other.batches, other.rows) == (1, 1)
    assert ids(other.process([SECOND]).alerts) == ["2"]
    assert [each.name for each in path.parent.iterdir()] == ["state.bin"]


def test_a_loaded_one_saves_what_it_loaded(make: Make, tmp_path: Path) -> None:
    detector = make()
    detector.process([FIRST])
    detector.save(tmp_path / "a.bin")
    make().load(tmp_path / "a.bin").save(tmp_path / "b.bin")
    assert ids(make().load(tmp_path / "b.bin").process([SECOND]).alerts) == ["2"]


def test_a_save_that_fails_leaves_the_file_before(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.bin"
    detector = make()
    detector.process([FIRST])
    detector.save(path)
    before = path.read_bytes()
    detector.process([SECOND])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            detector.save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("rules", "more", "text"),
    [
        ([{**TWO, "version": 2}], {}, r"rules two@1 \(only in the file\), two@2 \(only here\)"),
        ([{**TWO, "window": "20s"}], {}, r"rules two@1 \(another body or status\)"),
        ([{**TWO, "status": "shadow"}], {}, r"rules two@1 \(another body or status\)"),
        ([TWO, {**TWO, "rule_id": "more"}], {}, r"rules more@1 \(only here\)"),
        ([TWO], {"defaults": cl.Defaults(allowed_lateness_ms=7)}, "found differences in the defaults"),
        ([TWO], {"partition_lag_ms": 7}, "found differences in partition_lag_ms"),
        ([TWO], {"lists": {"stolen": ["c"]}}, "found differences in the lists"),
        ([TWO], {"policy": "policy.yaml"}, "found differences in the policy"),
    ],
)
def test_one_of_another_plan_is_refused(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: Any, more: Any, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make().save("state.bin")
    other = make(*rules, **more)
    with pytest.raises(cl.StateError, match=text) as raised:
        other.load("state.bin")
    assert "state.bin was saved by another plan" in str(raised.value)
    assert ids(other.process([FIRST]).alerts) == []


def test_one_of_another_stream_is_refused(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path / "state.bin")
    (tmp_path / "stream.yaml").write_text(STREAM.replace("card: string,", "card: string, more: string?,"))
    with pytest.raises(cl.StateError, match="found differences in the stream"):
        make().load(tmp_path / "state.bin")


def test_damaged_files_are_refused(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "state.bin"
    detector = make()
    detector.process([FIRST])
    detector.save(path)
    raw = path.read_bytes()
    for bytes_, found in (
        (raw[:10], "shorter than a header"),
        (raw[:-1], "checksum differs"),
        (raw[:-1] + bytes([raw[-1] ^ 1]), "checksum differs"),
        (b"nonsense" * 10, "not a crossline blob"),
        (wire.encode({"batch": 1}, {}), "found a file of another kind, expected a saved detector of format 1"),
        (wire.encode({"detector": 9}, {}), "found format 9, expected a saved detector of format 1"),
    ):
        path.write_bytes(bytes_)
        with pytest.raises(cl.StateError, match=found):
            make().load(path)
    with pytest.raises(cl.UsageError, match="No such file or directory; expected a file that save"):
        make().load(tmp_path / "none.bin")


def test_a_batch_that_cannot_be_read_changes_nothing(make: Make) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield FIRST
        raise OSError("the cursor is gone")

    detector = make()
    with pytest.raises(OSError, match="the cursor is gone"):
        detector.process(broken())
    with pytest.raises(cl.UsageError, match="found no such column"):
        detector.process(pa.table({"id": ["1"]}))
    detector.process([FIRST])
    assert ids(detector.process([SECOND]).alerts) == ["2"]


def test_a_batch_that_fails_half_way_is_reported_until_a_state_is_loaded(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = make()
    detector.process([FIRST])
    detector.save(tmp_path / "state.bin")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("crossline.runtime.local.single_run.collect_outcome", stopped)
        with pytest.raises(KeyboardInterrupt):
            detector.process([SECOND])
    for call in (lambda: detector.process([SECOND]), lambda: detector.save(tmp_path / "other.bin")):
        with pytest.raises(cl.StateError, match=r"an earlier batch failed half way \(KeyboardInterrupt"):
            call()
    assert ids(detector.load(tmp_path / "state.bin").process([SECOND]).alerts) == ["2"]


def test_a_time_in_the_future_is_a_fault_as_of_its_clock(make: Make, tmp_path: Path) -> None:
    (tmp_path / "stream.yaml").write_text(STREAM.replace("id: id", "future_bound: 1h\n    id: id"))
    late = {**FIRST, "at": 5_000_000}
    found = make(clock_ms=lambda: 0).process([late]).alerts
    assert [each.reason for each in found.dead_letters] == ["time_in_future"]
    assert make(clock_ms=lambda: 5_000_000).process([late]).alerts.dead_letters == []


def test_a_file_with_several_streams_needs_a_choice(make: Make, tmp_path: Path) -> None:
    both = yaml.safe_load(STREAM)
    both["streams"]["other"] = both["streams"]["taps"]
    (tmp_path / "stream.yaml").write_text(yaml.safe_dump(both))
    with pytest.raises(cl.UsageError, match="found streams other, taps; expected one"):
        make()
    streams = cl.load_streams(tmp_path / "stream.yaml")
    assert ids(make(stream=streams["taps"]).process([FIRST, SECOND]).alerts) == ["2"]
