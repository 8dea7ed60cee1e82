"""The rule log of a checkpoint on a store: every machine with the URI has the log and the files that it names."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import file_store
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_log import contents_of
from crossline.rule_registry.log_file import LogFile
from crossline.rule_registry.rows.row_log import raw_of
from crossline.rule_registry.rows.segments import Change, Header, Read, Segments, segments_of
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint
from crossline.runtime.snapshot.rule_log_copy import RuleLogCopy

STARTED = RuleEvent("started", 1)


def put(log: LogFile, number: int) -> None:
    """A list has another content, as ``ListsDirectory`` has it logged."""
    content = FileContent(b"- a%d\n" % number)
    contents_of(log.path).keep("blocked.yaml", content)
    log.append([RuleEvent("list_changed", 2, source="blocked.yaml", digest=content.digest, list_name="blocked")])


def held(root: Path, machine: str) -> tuple[StoredCheckpoint, Path]:
    """The checkpoint, on a machine with a disk of its own."""
    checkpoint = StoredCheckpoint((root / "store").as_uri())
    path = root / machine / "rules" / ".log" / "shop.jsonl"
    checkpoint.keep_log(path)
    return checkpoint, path


def test_a_run_whose_own_folder_is_gone_is_reported_and_the_store_is_whole(tmp_path: Path) -> None:
    checkpoint, _ = held(tmp_path, "one")
    assert checkpoint.missing() is None
    shutil.rmtree(checkpoint.folder)
    missing = str(checkpoint.missing())
    assert missing.startswith(f"{checkpoint.folder} was moved away or deleted while this run worked there on the")
    assert missing.endswith("Start again: the next run goes on from what the store has")
    checkpoint.release()
    held(tmp_path, "two")[0].release()


def test_a_driver_elsewhere_goes_on_with_the_log(tmp_path: Path) -> None:
    checkpoint, path = held(tmp_path, "one")
    log = LogFile(path)
    log.open()
    log.append([STARTED])
    put(log, 1)
    put(log, 2)
    log.close()
    written = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"event": "publ')  # a kill cuts off the last line
    checkpoint.release()
    shutil.rmtree(tmp_path / "one")

    checkpoint, path = held(tmp_path, "two")
    assert path.read_bytes() == written
    log = LogFile(path)
    events = log.open()
    assert [event.event for event in events] == ["started", "list_changed", "list_changed"]
    assert not (path.parent / "lists").exists()
    found = contents_of(path).entries("blocked.yaml", str(events[1].digest))
    assert [value for value, _ in found] == ["a1"]
    put(log, 3)
    log.close()
    checkpoint.release()
    kept = {f"{each.digest}.yaml.gz" for each in events[1:]}
    assert set(file_store((tmp_path / "store").as_uri()).names("kept/lists")) > kept

    # The first machine comes back, as it was before.
    old, now = tmp_path / "one" / "rules" / ".log" / "shop.jsonl", path.read_bytes()
    old.parent.mkdir(parents=True)
    old.write_bytes(written)
    checkpoint, path = held(tmp_path, "one")
    assert path.read_bytes() == now
    checkpoint.release()


def test_a_log_of_another_pipeline_life_is_renamed_and_reported(tmp_path: Path) -> None:
    checkpoint, path = held(tmp_path, "one")
    log = LogFile(path)
    log.open()
    log.append([STARTED])
    checkpoint.release()
    log.close()
    other = path.read_bytes().replace(b"1", b"9")
    path.write_bytes(other)
    with capture_logs() as logged:
        checkpoint, path = held(tmp_path, "one")
    assert LogFile(path).open() == [STARTED]
    (moved,) = path.parent.glob("shop.jsonl.before-*")
    assert moved.read_bytes() == other
    assert [each["backup"] for each in logged if each["log_level"] == "warning"] == [str(moved)]
    checkpoint.release()


def test_what_was_logged_and_judged_nothing_yet_stays(tmp_path: Path) -> None:
    checkpoint, path = held(tmp_path, "one")
    log = LogFile(path)
    log.open()
    log.append([STARTED])
    checkpoint.release()
    put(log, 1)
    log.close()
    more = path.read_bytes()
    checkpoint, path = held(tmp_path, "one")
    assert path.read_bytes() == more
    checkpoint.release()
    log.open()
    with pytest.raises(StateError, match="is held by another run of this pipeline"):
        held(tmp_path, "one")
    log.close()


def test_a_copy_follows_a_log_that_begins_anew(tmp_path: Path) -> None:
    """A first start that was cut off is done again, from an empty log."""
    path, folder = tmp_path / "rules" / ".log" / "shop.jsonl", tmp_path / "work"
    copy = RuleLogCopy(path, folder, file_store((tmp_path / "store").as_uri()), "the store")
    copy.follow()
    path.parent.mkdir(parents=True)
    cut_off, refused = RuleEvent("published", 1, rule_id="r"), RuleEvent("refused", 1, text="long" * 99)
    for events in ([cut_off], [refused], [refused, STARTED]):
        path.write_bytes(b"".join(event.to_line() for event in events))
        copy.follow()
        assert (folder / "rulelog" / "shop.jsonl").read_bytes() == path.read_bytes()
    path.write_bytes(STARTED.to_line())
    with pytest.raises(StateError, match="does not go on from what it was"):
        copy.follow()


def messages(*values: str) -> pa.Table:
    return raw_of([f"k{number}".encode() for number in range(len(values))], [each.encode() for each in values])


def begun(log: Path, *values: str, number: int = 1) -> Segments:
    """The table ``profile`` has a content written whole."""
    table = segments_of(log, "profile")
    raw = messages(*values)
    table.begin(Header(number, table.keep(raw), len(raw), {"payments": 5}, Read({0: len(raw)}, "topic")))
    return table


def segment_contents(table: Segments) -> list[object]:
    return [
        (header, table.content(header).to_pylist(), [each.raw.to_pylist() for each in table.changes(header.number)])
        for header in table.headers()
    ]


def test_tables_from_topics_go_with_the_log(tmp_path: Path) -> None:
    checkpoint, path = held(tmp_path, "one")
    log = LogFile(path)
    log.open()
    log.append([STARTED])
    table = begun(path, "a", "b")
    checkpoint.publish(threading.Event())
    table.append(1, Change(messages("c"), {"payments": 6}, Read({0: 3}, "topic")))
    checkpoint.publish(threading.Event())
    begun(path, "c", "b", number=2)
    table.append(2, Change(messages("d"), {"payments": 7}, Read({0: 4}, "topic")))
    log.close()
    checkpoint.release()
    was, early = segment_contents(table), path.parent / "rows" / "shop" / "profile" / "00000002.jsonl"
    assert len(was) == 2
    first = early.read_bytes()
    shutil.rmtree(tmp_path / "one")

    checkpoint, path = held(tmp_path, "two")
    elsewhere = segments_of(path, "profile")
    assert not list(elsewhere.folder.glob("*.rows"))  # asked for when they are needed
    assert segment_contents(elsewhere) == was
    assert elsewhere.unread_ms(10**12) == 10**12  # it is unknown for how long its topic was not read
    log = LogFile(path)
    log.open()
    log.append([RuleEvent("ended", 9)])
    elsewhere.append(2, Change(messages("e"), {"payments": 8}, Read({0: 5}, "topic")))
    log.close()
    checkpoint.release()
    now = segment_contents(elsewhere)
    assert now != was

    # The first machine comes back as it was before, and took up something that was never judged by.
    old = tmp_path / "one" / "rules" / ".log"
    early = old / "rows" / "shop" / "profile" / "00000002.jsonl"
    early.parent.mkdir(parents=True)
    early.write_bytes(first + b'{"never": "judged by"}\n')
    early.with_name("00000003.jsonl").write_bytes(b"{}\n")
    checkpoint, path = held(tmp_path, "one")
    assert segment_contents(segments_of(path, "profile")) == now
    checkpoint.release()


def test_a_table_that_was_put_back_from_an_old_copy_is_reported(tmp_path: Path) -> None:
    checkpoint, path = held(tmp_path, "one")
    log = LogFile(path)
    log.open()
    log.append([STARTED])
    table = begun(path, "a")
    checkpoint.publish(threading.Event())
    grown = table.folder / "00000001.jsonl"
    grown.write_bytes(grown.read_bytes().replace(b"payments", b"refunds!") + b"more\n")
    with pytest.raises(StateError, match="does not go on from what it was when records were judged by it"):
        checkpoint.publish(threading.Event())
    log.close()
