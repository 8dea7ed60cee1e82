from pathlib import Path

import pytest

from crossline.core.basics.errors import UsageError
from crossline.rulelog.lists import ListsDirectory


def test_a_text_file_is_an_entry_a_line(tmp_path: Path) -> None:
    (tmp_path / "cards.txt").write_text("# stolen\n4929-1\n\n  4929-2  \n", encoding="utf-8")
    (tmp_path / "codes.yaml").write_text("[NO, 742, 0742]\n", encoding="utf-8")
    assert ListsDirectory(tmp_path).load() == {"cards": ["4929-1", "4929-2"], "codes": ["NO", 742, "0742"]}


def test_a_changed_list_is_noticed_and_a_bad_one_keeps_the_last(tmp_path: Path) -> None:
    file = tmp_path / "cards.yaml"
    file.write_text("[a]", encoding="utf-8")
    lists = ListsDirectory(str(tmp_path))
    lists.load()
    assert lists.poll() is None

    file.write_text("[a, [b]]", encoding="utf-8")
    changes = lists.poll()
    assert changes is not None
    found, events = lists.take_up(changes, 5)
    assert found == {"cards": ["a"]}
    assert [(event.event, event.at_ms) for event in events] == [("refused", 5)]
    assert 'found ["b"]; expected text, a finite number up to 64 bits, true or false' in str(events[0].text)
    assert lists.poll() is None

    file.write_text("[a, b]", encoding="utf-8")
    found, events = lists.take_up(lists.poll(), 6)
    assert found == {"cards": ["a", "b"]}
    assert [(event.event, event.text) for event in events] == [("list_changed", "list cards: 2 entries")]


def test_a_list_that_is_gone_stays_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "cards.txt").write_text("a\n", encoding="utf-8")
    lists = ListsDirectory(tmp_path)
    lists.load()
    (tmp_path / "cards.txt").unlink()
    found, events = lists.take_up(lists.poll(), 7)
    assert found == {"cards": ["a"]}
    assert [event.event for event in events] == ["absent"]
    (tmp_path / "more.txt").write_text("b\n", encoding="utf-8")
    found, events = lists.take_up(lists.poll(), 8)
    assert [event.event for event in events] == ["list_changed"]
    assert sorted(found) == ["cards", "more"]


def test_a_start_refuses_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"found no folder .*/lists; expected the folder of the lists"):
        ListsDirectory(tmp_path / "lists").load()
    (tmp_path / "a.json").write_text('{"a": 1}', encoding="utf-8")
    (tmp_path / "b.txt").write_bytes(b"ok\n\xff\n")
    (tmp_path / "c.txt").write_text("x", encoding="utf-8")
    (tmp_path / "c.yaml").write_text("[x]", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        ListsDirectory(tmp_path).load()
    text = str(caught.value)
    assert 'a.json:1\n     1 | {"a": 1}\n  found {"a": 1}; expected a list of values' in text
    assert "b.txt:2\n  found byte 0xff; expected text in UTF-8" in text
    assert 'c.yaml:1\n  found list "c"; expected one file a list; it stands in c.txt' in text


@pytest.mark.parametrize("entry", ["9223372036854775808", "1e400", "~", "[]", "-1e999", "1" * 39])
def test_a_number_that_no_record_can_have_is_refused(tmp_path: Path, entry: str) -> None:
    """One that is beyond 64 bits could not be handed to the workers: it would keep all changes back."""
    lists = ListsDirectory(tmp_path)
    lists.load()
    (tmp_path / "a.yaml").write_text(f"[1,\n {entry}]", encoding="utf-8")
    (tmp_path / "b.yaml").write_text("[9223372036854775807, -1.5, true]", encoding="utf-8")
    found, events = lists.take_up(lists.poll(), 1)
    assert found == {"b": [9223372036854775807, -1.5, True]}
    assert [(event.event, event.source) for event in events] == [("refused", "a.yaml"), ("list_changed", "b.yaml")]
    assert "a.yaml:2: [1]" in str(events[0].text)


def test_a_list_that_aliases_make_large_is_refused(tmp_path: Path) -> None:
    text = f"- &x {'y' * 100_000}\n" + "- *x\n" * 1_000
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"a\.yaml:\d+\n.*\n  found more than 67,108,864 bytes, with what aliases name"
    ):
        ListsDirectory(tmp_path).load()
