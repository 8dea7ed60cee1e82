import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.basics.errors import RetryableError, StateError
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.log_file import LogFile, read_log

from .harness import Harness, rule

STARTED = RuleEvent("started", 1_000)
REFUSED = RuleEvent("refused", 2_000, source="a.yaml", digest="d", text="ä\n\u2028ß")


def written(path: Path, *events: RuleEvent) -> bytes:
    path.write_bytes(b"".join(event.to_line() for event in events))
    return path.read_bytes()


def test_events_come_back_as_they_were(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "deep" / "p.jsonl")
    assert log.open() == []
    body = {"rule_id": "a", "conditions": [{"value": "\n"}]}
    events = [
        RuleEvent("published", 5, "a", 1, "active", None, "a.yaml", 3, "d", body=body),
        RuleEvent("status_changed", 6, "a", 1, "paused", 7, "a.yaml", 3, "d", body=body),
        REFUSED,
        STARTED,
    ]
    log.append(events)
    assert read_log(log.path) == events
    log.close()
    log.close()
    assert LogFile(log.path).open() == events


def test_a_line_is_plain_json(tmp_path: Path) -> None:
    event = RuleEvent("published", 1_767_225_600_123, "a", 1, "active", None, "a.yaml", 3, "d", body={})
    assert event.to_line() == (
        b'{"schema_version":1,"event":"published","at":"2026-01-01T00:00:00.123Z","rule_id":"a","version":1,'
        b'"status":"active","effective_from_ms":null,"source":"a.yaml","line":3,"digest":"d","body":{}}\n'
    )


@pytest.mark.parametrize("kept", [1, 20, len(REFUSED.to_line()) - 1])
def test_a_torn_last_line_is_dropped(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "p.jsonl"
    whole = written(path, STARTED)
    with path.open("ab") as file:
        file.write(REFUSED.to_line()[:kept])
    assert read_log(path) == [STARTED]
    log = LogFile(path)
    assert log.open() == [STARTED]
    assert path.read_bytes() == whole
    log.append([REFUSED])
    assert read_log(path) == [STARTED, REFUSED]
    log.close()


def test_a_last_line_of_rubbish_is_torn_too(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    whole = written(path, STARTED)
    path.write_bytes(whole + b"\0\0\0\0\n")
    log = LogFile(path)
    assert log.open() == [STARTED]
    assert path.read_bytes() == whole
    log.close()


def test_damage_before_the_last_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(STARTED.to_line() + b"{}\n" + REFUSED.to_line())
    with pytest.raises(StateError, match=r"p\.jsonl:2: found '\{\}'; expected an event of a rule log"):
        LogFile(path).open()
    path.write_bytes(STARTED.to_line().replace(b":1,", b":2,", 1) + REFUSED.to_line())
    with pytest.raises(StateError, match="schema_version 2; this crossline reads 1"):
        read_log(path)


def test_a_first_start_that_was_cut_off_is_done_again(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    whole = harness.start()
    path = harness.folder / ".log" / "p.jsonl"
    harness.log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:10])
    assert read_log(path) == []
    harness.now_ms = 9_000
    assert harness.restart().fingerprint == whole.fingerprint


def test_a_publication_that_was_cut_off_comes_again(harness: Harness) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    harness.now_ms = 2_000
    harness.write("a.yaml", rule(version=2), rule("b"))
    harness.take_up()
    path = harness.folder / ".log" / "p.jsonl"
    harness.log.close()
    path.write_bytes(path.read_bytes()[:-5])
    assert sorted(each.rule.rule_id for each in harness.restart().versions) == ["b", "large"]
    harness.now_ms = 3_000
    _, events = harness.take_up()
    assert [(e.rule_id, e.version, e.effective_from_ms) for e in events] == [("large", 2, 3_000)]


def test_a_full_disk_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "p.jsonl")
    log.open()
    log.append([STARTED])
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crossline.rule_registry.log_file.os.write", full)
        with pytest.raises(RetryableError, match="cannot be written: No space left on device"):
            log.append([REFUSED])
    assert read_log(log.path) == [STARTED]
    log.append([REFUSED])
    assert read_log(log.path) == [STARTED, REFUSED]
    log.close()
    with pytest.raises(StateError, match="is not open"):
        log.append([REFUSED])


def replaced(path: Path) -> None:
    partial = path.with_suffix(".copy")
    partial.write_bytes(path.read_bytes())
    partial.replace(path)


@pytest.mark.parametrize(("change", "text"), [(Path.unlink, "is no longer there"), (replaced, "was replaced")])
def test_a_log_that_is_no_longer_in_its_place_takes_nothing(
    harness: Harness, change: Callable[[Path], object], text: str
) -> None:
    harness.write("a.yaml", rule())
    harness.start()
    path = harness.folder / ".log" / "p.jsonl"
    kept = harness.folder / ".log" / "kept"
    kept.hardlink_to(path)
    whole = kept.read_bytes()
    harness.write("a.yaml", rule(version=2))
    changes = harness.log.poll()
    change(path)
    with pytest.raises(RetryableError, match=rf"p\.jsonl {text}"):
        harness.log.take_up(changes, {}, 2_000)
    with pytest.raises(RetryableError, match=rf"p\.jsonl {text}"):
        harness.log.poll()
    assert kept.read_bytes() == whole
    kept.replace(path)
    assert [(e.event, e.version) for e in harness.take_up()[1]] == [("published", 2)]
    assert len(read_log(path)) == 3


def test_a_log_that_goes_while_it_is_written_has_nothing_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path / "p.jsonl")
    log.open()
    log.append([STARTED])
    real = os.fsync

    def deleted(descriptor: int) -> None:
        real(descriptor)
        log.path.rename(tmp_path / "away")

    with monkeypatch.context() as patch:
        patch.setattr("crossline.rule_registry.log_file.os.fsync", deleted)
        with pytest.raises(RetryableError, match="is no longer there"):
            log.append([REFUSED])
    (tmp_path / "away").rename(log.path)
    assert read_log(log.path) == [STARTED]
    log.append([REFUSED])
    assert read_log(log.path) == [STARTED, REFUSED]
    log.close()


def test_a_torn_write_that_could_not_be_cut_off_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogFile(tmp_path / "p.jsonl")
    log.open()
    log.append([STARTED])
    real = os.write

    def half(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(5, "Input/output error")
        return real(descriptor, data[: len(data) - 10])

    def fails(*_: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("crossline.rule_registry.log_file.os.write", half)
        patch.setattr("crossline.rule_registry.log_file.os.ftruncate", fails)
        with pytest.raises(RetryableError, match="cannot be written: Input/output error"):
            log.append([REFUSED])
    log.append([REFUSED])
    assert read_log(log.path) == [STARTED, REFUSED]
    log.close()


def test_a_log_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").mkdir()
    with pytest.raises(StateError, match=r"p\.jsonl cannot be opened: Is a directory"):
        LogFile(tmp_path / "p.jsonl").open()
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"p\.jsonl cannot be opened: "):
        LogFile(tmp_path / "file" / "p.jsonl").open()
