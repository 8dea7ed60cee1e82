"""List files, and what becomes of them in a log."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.conditions.lists import Lists, named_lists
from crossline.basics.errors import RetryableError, StateError, UsageError
from crossline.rule_registry import lists
from crossline.rule_registry.events import RuleEvent, event_from_line
from crossline.rule_registry.list_file import read_list
from crossline.rule_registry.list_log import ListContents, ListLog
from crossline.rule_registry.lists import ListsDirectory, lists_in, names_in

NOON_MS = 1_767_268_800_000  # 2026-01-01T12:00:00Z


class Harness:
    """A folder of lists, the log that is made of it, and a pipeline that starts and takes up what changed."""

    def __init__(self, path: Path) -> None:
        self.path = path / "lists"
        self.path.mkdir()
        self.contents = ListContents(path / "kept")
        self.log: list[RuleEvent] = []
        self.start()

    def start(self) -> list[RuleEvent]:
        self.lists = ListsDirectory(self.path, self.contents)
        begun = self.lists.start(self.log, 0)
        self._logged(begun)
        return begun

    def write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text, encoding="utf-8")

    def take_up(self, begins_ms: dict[str, int | None], now_ms: int = 1) -> list[RuleEvent]:
        changes = self.lists.poll()
        assert changes is not None
        events = self.lists.events(changes, now_ms, begins_ms)
        self.lists.take(changes, events)
        self._logged(events)
        return events

    def _logged(self, events: list[RuleEvent]) -> None:
        self.log += [event_from_line(event.to_line()) for event in events]

    def at(self, stream: str, ingest_ms: int) -> dict[str, list[object]]:
        """What a record meets, by the log alone."""
        log = ListLog(self.contents.entries).after(self.log)
        return {name: list(each.at(stream, ingest_ms)) for name, each in log.whole(log.versions).items()}


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def kinds(events: list[RuleEvent]) -> list[tuple[str, str | None]]:
    return [(event.event, event.source) for event in events]


def test_a_text_file_is_an_entry_a_line(tmp_path: Path) -> None:
    (tmp_path / "cards.txt").write_text("# stolen\n4929-1\n\n  4929-2  \n", encoding="utf-8")
    (tmp_path / "codes.yaml").write_text("[NO, 742, 0742]\n", encoding="utf-8")
    assert lists_in(tmp_path) == named_lists({"cards": ["4929-1", "4929-2"], "codes": ["NO", 742, "0742"]})


def test_an_entry_may_end(tmp_path: Path) -> None:
    text = f"- a\n- {{value: b, until: 2026-01-01T12:00:00Z}}\n- {{until: {NOON_MS + 5}, value: 7}}\n- {{value: c}}\n"
    (tmp_path / "cards.yaml").write_text(text, encoding="utf-8")
    cards = lists_in(tmp_path)["cards"]
    assert [cards.at("s", NOON_MS + more) for more in (-1, 0, 4, 5)] == [
        ["a", "c", "b", 7],
        ["a", "c", 7],
        ["a", "c", 7],
        ["a", "c"],
    ]


def test_an_entry_that_stands_twice_ends_at_the_later_time(tmp_path: Path) -> None:
    text = f"- {{value: a, until: {NOON_MS}}}\n- a\n- {{value: b, until: 9}}\n- {{value: b, until: 5}}\n"
    (tmp_path / "cards.yaml").write_text(text, encoding="utf-8")
    cards = lists_in(tmp_path)["cards"]
    assert (cards.at("s", NOON_MS), cards.at("s", 8), cards.at("s", 9)) == (["a"], ["a", "b"], ["a"])


def test_malformed_entries_are_reported_all_at_once(tmp_path: Path) -> None:
    text = "- {value: a, until: tomorrow}\n- {value: b, untill: 5}\n- {until: 5}\n- {value: [c], until: 2026-01-01}\n"
    text += "- {value: d, expires: 2026-01-01}\n"
    (tmp_path / "cards.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        lists_in(tmp_path)
    message = str(caught.value)
    assert "cards.yaml:1: [0].until" in message
    assert 'found "tomorrow"; expected an instant such as 2026-01-31T09:30:00Z, or epoch milliseconds' in message
    assert "cards.yaml:2: [1].untill" in message
    assert 'found "untill"; expected value or until\n  did you mean until?' in message
    assert "cards.yaml:3: [2]" in message
    assert "found nothing; expected text, a finite number up to 64 bits, true or false" in message
    assert "cards.yaml:4: [3].value" in message
    assert "cards.yaml:4: [3].until" in message
    assert 'found "expires"; expected value or until\n  did you mean until?' in message


def test_a_change_holds_from_its_instants_and_a_bad_one_keeps_the_last(harness: Harness) -> None:
    harness.write("cards.yaml", "[a]")
    (first,) = harness.take_up({"s": 100, "t": 200})
    assert (first.event, first.list_name, first.begins_ms) == ("list_changed", "cards", {}), "from the beginning"
    assert harness.lists.poll() is None

    harness.write("cards.yaml", "[a, [b]]")
    (refused,) = harness.take_up({"s": 300}, 5)
    assert (refused.event, refused.at_ms, refused.list_name) == ("refused", 5, "cards")
    assert 'found ["b"]; expected text, a finite number up to 64 bits, true or false' in str(refused.text)
    assert harness.lists.poll() is None

    harness.write("cards.yaml", "[a, b]")
    (changed,) = harness.take_up({"s": 400, "t": None}, 6)
    assert (changed.text, changed.begins_ms) == ("list cards: 2 entries", {"s": 400, "t": None})
    assert harness.at("s", 399) == {"cards": ["a"]}
    assert harness.at("s", 400) == {"cards": ["a", "b"]}
    assert harness.at("t", 0) == {"cards": ["a", "b"]}, "no record of it had come"
    assert harness.at("later", 0) == {"cards": ["a", "b"]}, "a stream that the log does not know"


def test_a_start_goes_on_from_the_log(harness: Harness) -> None:
    harness.write("cards.txt", "a\n")
    harness.take_up({"s": 100})
    harness.write("cards.txt", "b\n")
    harness.take_up({"s": 200})
    assert harness.start() == []
    assert harness.lists.poll() is None, "nothing changed"
    harness.write("cards.txt", "a\n")  # while nothing runs: the content of before, again
    harness.write("more.txt", "x\n")
    assert kinds(harness.start()) == [("list_changed", "more.txt")], "a list that the log does not know begins at once"
    assert harness.at("s", 250)["cards"] == ["b"]
    assert kinds(harness.take_up({"s": 300})) == [("list_changed", "cards.txt")]
    assert [harness.at("s", at)["cards"] for at in (0, 199, 200, 299, 300)] == [["a"], ["a"], ["b"], ["b"], ["a"]]
    assert harness.at("s", 0)["more"] == ["x"]


def test_a_bad_file_of_a_list_that_is_known_does_not_stop_a_start(harness: Harness) -> None:
    harness.write("cards.txt", "a\n")
    harness.take_up({"s": 100})
    (harness.path / "cards.txt").write_bytes(b"a\n\xff\n")
    assert harness.start() == []
    assert kinds(harness.take_up({"s": 200})) == [("refused", "cards.txt")]
    assert harness.at("s", 300) == {"cards": ["a"]}
    harness.start()
    assert harness.lists.poll() is None, "reported once for each content"


def test_a_list_that_is_gone_stays_and_is_reported_once(harness: Harness) -> None:
    harness.write("cards.txt", "a\n")
    harness.take_up({"s": 1})
    (harness.path / "cards.txt").unlink()
    (absent,) = harness.take_up({"s": 7})
    assert (absent.event, absent.list_name) == ("absent", "cards")
    assert "to empty it, leave a file without entries" in str(absent.text)
    assert harness.at("s", 7) == {"cards": ["a"]}
    harness.start()
    harness.write("more.txt", "b\n")
    assert kinds(harness.take_up({"s": 8})) == [("list_changed", "more.txt")]
    harness.write("cards.txt", "")
    harness.take_up({"s": 9})
    assert (harness.at("s", 8)["cards"], harness.at("s", 9)["cards"]) == (["a"], [])


def test_versions_that_no_record_meets_leave(harness: Harness) -> None:
    for number in range(4):
        harness.write("cards.txt", f"a\nb{number}\n")
        harness.take_up({"s": 100 * number, "t": 200 * number})

    def kept(lists: Lists) -> tuple[int, int]:
        return lists["cards"].first, len(lists["cards"].changes)

    log = harness.lists.log
    assert kept(log.since({"s": 0, "t": 0})) == (0, 4)
    assert kept(log.since({"s": 99, "t": 1000})) == (0, 4)
    assert kept(log.since({"s": 100, "t": 1000})) == (1, 3)
    assert kept(log.since({"s": 100, "t": 199})) == (0, 4), "after more was let go of"
    assert kept(log.since({"s": 300, "t": 400})) == (2, 2)
    for gone in ({"s": 300, "t": 600}, {}):
        (cards,) = log.since(gone).values()
        assert kept({"cards": cards}) == (3, 1)
        assert cards.at("s", 0) == ["a", "b3"]
    newest = log.since({"s": 200, "t": 400})["cards"]
    assert [newest.at("s", at) for at in (199, 200, 299, 300)] == [["a", "b2"]] * 3 + [["a", "b3"]]


def test_contents_are_read_again_and_known_by_their_digest(harness: Harness) -> None:
    harness.write("cards.txt", "a\n")
    harness.take_up({"s": 1})
    (path,) = (harness.path.parent / "kept").iterdir()
    assert gzip.decompress(path.read_bytes()) == b"a\n"
    path.write_bytes(gzip.compress(b"b\n"))
    with pytest.raises(StateError, match=r"was changed\. Put the file back from a copy"):
        harness.at("s", 1)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(StateError, match=r"cannot be read: Compressed file ended.*\. Put the file back"):
        harness.at("s", 1)
    path.unlink()
    with pytest.raises(StateError, match=r"cannot be read: No such file or directory\. Put the file back"):
        harness.at("s", 1)


def test_a_content_that_cannot_be_stored_is_not_applied(harness: Harness) -> None:
    (harness.path.parent / "kept").write_text("in the way")
    harness.write("cards.txt", "a\n")
    with pytest.raises(RetryableError, match=r"the content of a list cannot be kept in .*: "):
        harness.lists.poll()
    (harness.path.parent / "kept").unlink()
    assert kinds(harness.take_up({"s": 1})) == [("list_changed", "cards.txt")]


def test_a_start_refuses_what_is_wrong(tmp_path: Path) -> None:
    missing = ListsDirectory(tmp_path / "lists", ListContents(tmp_path / "kept"))
    with pytest.raises(UsageError, match=r"found no folder .*/lists; expected the folder of the lists"):
        missing.start([], 0)
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "a.json").write_text('{"a": 1}', encoding="utf-8")
    (folder / "b.txt").write_bytes(b"ok\n\xff\n")
    (folder / "c.txt").write_text("x", encoding="utf-8")
    (folder / "c.yaml").write_text("[x]", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        ListsDirectory(folder, ListContents(tmp_path / "kept")).start([], 0)
    text = str(caught.value)
    assert 'a.json:1\n     1 | {"a": 1}\n  found {"a": 1}; expected a list of values' in text
    assert "b.txt:2\n  found byte 0xff; expected text in UTF-8" in text
    assert 'c.yaml:1\n  found list "c"; expected one file a list; it stands in c.txt' in text


@pytest.mark.parametrize("entry", ["9223372036854775808", "1e400", "~", "[]", "-1e999", "1" * 39])
def test_a_number_that_no_record_can_have_is_refused(harness: Harness, entry: str) -> None:
    """One that is beyond 64 bits could not be handed to the workers: it would keep all changes back."""
    harness.write("a.yaml", f"[1,\n {entry}]")
    harness.write("b.yaml", "[9223372036854775807, -1.5, true]")
    events = harness.take_up({"s": 1})
    assert harness.at("s", 1) == {"b": [9223372036854775807, -1.5, True]}
    assert kinds(events) == [("refused", "a.yaml"), ("list_changed", "b.yaml")]
    assert "a.yaml:2: [1]" in str(events[0].text)


def test_a_list_that_aliases_make_large_is_refused(tmp_path: Path) -> None:
    text = f"- &x {'y' * 100_000}\n" + "- *x\n" * 1_000
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"a\.yaml:\d+\n.*\n  found more than 67,108,864 bytes, with what aliases name"
    ):
        lists_in(tmp_path)


def test_names_follow_the_folder_and_files_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(source: str, content: Any) -> Any:
        read.append(source)
        return read_list(source, content)

    monkeypatch.setattr(lists, "read_list", reading)
    folder = tmp_path / "lists"
    with pytest.raises(UsageError, match="found no folder"):
        names_in(folder)
    folder.mkdir()
    assert names_in(folder) == []
    (folder / "cards.txt").write_text("4929-1\n")
    (folder / "codes.yaml").write_text("[NO, 742]\n")
    assert names_in(folder) == names_in(folder) == ["cards", "codes"]
    assert read == ["cards.txt", "codes.yaml"]
    (folder / "codes.yaml").write_text("{")
    for _ in range(2):
        with pytest.raises(UsageError, match=r"codes\.yaml"):
            names_in(folder)
    (folder / "codes.yaml").unlink()
    assert names_in(folder) == ["cards"]
    (folder / "cards.txt").unlink()
    folder.rmdir()
    with pytest.raises(UsageError, match="found no folder"):
        names_in(folder)
