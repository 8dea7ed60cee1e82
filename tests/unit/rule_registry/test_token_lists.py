"""Lists of sensitive values: tokens from the moment that they are read, also in what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.list_log import contents_of
from crossline.rule_registry.lists import ListsDirectory, folder_of_lists, lists_in
from crossline.rule_registry.token_lists import TokenLists


def tokens(values: Sequence[str]) -> list[str]:
    return [f"t-{value[::-1]}" for value in values]


OF = {"stolen": tokens}


def folder(path: Path) -> Path:
    path.mkdir()
    (path / "stolen.txt").write_text("# cards\n4711\n4712\n")
    (path / "plain.txt").write_text("NO\n")
    return path


def test_values_of_named_lists_are_tokens(tmp_path: Path) -> None:
    found = lists_in(folder(tmp_path / "lists"), OF)
    assert list(found["stolen"].at("s", 0)) == ["t-1174", "t-2174"]
    assert list(found["plain"].at("s", 0)) == ["NO"]


def test_ends_are_kept(tmp_path: Path) -> None:
    (tmp_path / "stolen.json").write_text(json.dumps([4711, {"value": "4712", "until": "2026-01-01T00:00:00.000Z"}]))
    found = lists_in(tmp_path, OF)["stolen"]
    assert list(found.at("s", 0)) == ["t-1174", "t-2174"]
    assert list(found.at("s", FOREVER_MS - 1)) == ["t-1174"]


def test_what_is_kept_of_a_list_has_tokens(tmp_path: Path) -> None:
    contents = contents_of(tmp_path / "log" / "rules.jsonl")
    lists = ListsDirectory(folder(tmp_path / "lists"), contents, OF)
    events = lists.start([], 0)
    assert sorted(str(each.list_name) for each in events) == ["plain", "stolen"]
    assert list(lists.log.whole(["stolen"])["stolen"].at("s", 0)) == ["t-1174", "t-2174"]
    again = ListsDirectory(tmp_path / "lists", contents, OF)
    assert again.start(events, 1) == []
    assert again.poll() is None
    assert list(again.log.whole(["stolen"])["stolen"].at("s", 0)) == ["t-1174", "t-2174"]
    (tmp_path / "lists" / "stolen.txt").write_text("4713\n")
    changes = again.poll()
    assert changes is not None
    more = again.events(changes, 2, {})
    assert [each.list_name for each in more] == ["stolen"]
    again.take(changes, more)
    assert again.poll() is None


def test_what_was_taken_is_what_was_given(tmp_path: Path) -> None:
    given = folder_of_lists(folder(tmp_path / "lists"))
    wrapped = TokenLists(given, OF)
    files = wrapped.changed()
    assert files is not None
    assert files["stolen.txt"].data == b"t-1174\nt-2174\n"
    wrapped.take(files)
    assert wrapped.changed() is None
