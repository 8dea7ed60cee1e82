"""Edits of list files: what stands there afterwards, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.list_file import read_list
from crossline.rule_registry.sources.list_edit import ListEntry, ListFolder

UNTIL_MS = 1_798_761_600_000  # 2027-01-01T00:00:00Z
CARDS = """\
# stolen cards
- c1
- value: c2   # by mail
  until: 2026-12-31T00:00:00Z
# numbers are no texts
- 7
- '7'
- true
"""


def lists(tmp_path: Path, **files: str) -> ListFolder:
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return ListFolder(tmp_path)


def nothing(entry: ListEntry | None) -> None:
    del entry


def test_a_new_entry_is_a_line_more(tmp_path: Path) -> None:
    folder = lists(tmp_path, cards__yaml=CARDS)
    put = folder.put("cards", 'c3"', UNTIL_MS, nothing)
    assert put == (ListEntry("cards", 'c3"', UNTIL_MS), False)
    text = (tmp_path / "cards.yaml").read_text()
    assert text == CARDS + '- {"value": "c3\\"", "until": "2027-01-01T00:00:00.000Z"}\n'
    assert folder.put("cards", 'c3"', UNTIL_MS, nothing)[1], "it stood there"
    assert (tmp_path / "cards.yaml").read_text() == text, "nothing is written where nothing changes"


def test_an_entry_goes_with_its_lines_and_no_others(tmp_path: Path) -> None:
    folder = lists(tmp_path, cards__yaml=CARDS)
    assert folder.remove("cards", "c2", nothing) == ListEntry("cards", "c2", 1_798_675_200_000)
    assert (tmp_path / "cards.yaml").read_text() == "# stolen cards\n- c1\n# numbers are no texts\n- 7\n- '7'\n- true\n"
    assert folder.remove("cards", "7", nothing) == ListEntry("cards", "7"), "text goes before a number"
    assert folder.remove("cards", "7", nothing) == ListEntry("cards", 7)
    assert folder.remove("cards", "true", nothing) == ListEntry("cards", True)
    assert folder.remove("cards", "true", nothing) is None
    assert (tmp_path / "cards.yaml").read_text() == "# stolen cards\n- c1\n# numbers are no texts\n"


@pytest.mark.parametrize("text", ["[c1, c2]\n", "- c1\n- &a c2\n- *a\n", '["c1", "c2"]', "- - c1\n", "c1"])
def test_whatever_the_layout_the_list_says_what_was_asked_for(tmp_path: Path, text: str) -> None:
    folder = lists(tmp_path, cards__yaml=text)
    try:
        before = read_list("cards.yaml", FileContent(text.encode()))
    except UsageError:
        with pytest.raises(UsageError):
            folder.put("cards", "c3", FOREVER_MS, nothing)
        assert (tmp_path / "cards.yaml").read_text() == text
        return
    folder.put("cards", "c3", UNTIL_MS, nothing)
    folder.put("cards", "c1", UNTIL_MS, nothing)
    folder.remove("cards", "c2", nothing)
    after = read_list("cards.yaml", FileContent((tmp_path / "cards.yaml").read_bytes()))
    kept = {value: until for value, until in before if value != "c2"}
    assert dict(after) == {**kept, "c1": UNTIL_MS, "c3": UNTIL_MS}


def test_the_last_one_leaves_an_empty_list(tmp_path: Path) -> None:
    folder = lists(tmp_path, a__yaml="- x\n", b__json='["x"]', c__txt="x\n")
    for name in "abc":
        folder.remove(name, "x", nothing)
        folder.put(name, "y", FOREVER_MS, nothing)
    for name in ("a.yaml", "b.json", "c.txt"):
        assert read_list(name, FileContent((tmp_path / name).read_bytes())) == [("y", FOREVER_MS)]


def test_a_text_file_takes_what_it_can_say(tmp_path: Path) -> None:
    folder = lists(tmp_path, cards__txt="# stolen\nc1\n\n  c2  ")
    folder.put("cards", "c3", FOREVER_MS, nothing)
    folder.remove("cards", "c2", nothing)
    assert (tmp_path / "cards.txt").read_text() == "# stolen\nc1\n\nc3\n"
    with pytest.raises(PermanentError, match=r"expected cards\.yaml for an entry with an end"):
        folder.put("cards", "c4", UNTIL_MS, nothing)
    for value in ("#c", "a\nb", " a", "", 7, "a\u2028b"):
        with pytest.raises(PermanentError, match="expected a text of one line"):
            folder.put("cards", value, FOREVER_MS, nothing)


def test_no_list_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(PermanentError, match=r'found no list "crads"; expected cards; did you mean cards\?'):
        lists(tmp_path, cards__txt="").put("crads", "c1", FOREVER_MS, nothing)
    with pytest.raises(PermanentError, match="found no list"):
        lists(tmp_path).put("../cards", "c1", FOREVER_MS, nothing)


def test_what_stands_there_may_be_refused(tmp_path: Path) -> None:
    def refuse(entry: ListEntry | None) -> None:
        raise ValueError(entry)

    folder = lists(tmp_path, cards__yaml=CARDS)
    with pytest.raises(ValueError, match="c1"):
        folder.put("cards", "c1", UNTIL_MS, refuse)
    assert (tmp_path / "cards.yaml").read_text() == CARDS
