"""Tables that fit: side by side where there is room, else one below the other; nothing is cut off."""

from __future__ import annotations

from collections import Counter

import pytest
from rich.text import Text

from crossline.cli.terminal.tables import Listing, NameValues, fitted, screen

ROWS = [
    (
        "a_rule_with_a_name_that_goes_on_and_on",
        "high",
        "ten payments of one account within a minute",
        "in/some/file.yaml:3",
    ),
    ("short", "low", "", "x" * 70),
    ("卡片测试", "critical", "十笔付款", "in/é.yaml:12"),
]
COLUMNS = ("rule", "severity", "what", "source")


def printed(columns: int, monkeypatch: pytest.MonkeyPatch, *, long: tuple[str, ...] = ("what", "source")) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    table = Listing(*COLUMNS, long=long)
    for row in ROWS:
        table.add(*row)
    console = screen()
    with console.capture() as captured:
        console.print(table)
    return captured.get().splitlines()


def letters(text: str) -> Counter[str]:
    return Counter("".join(text.split()))


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100, 120, 200])
def test_nothing_is_lost_at_any_width(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    lines = printed(columns, monkeypatch)
    assert all(Text(line).cell_len <= columns for line in lines)
    stacked = lines[0].split() != list(COLUMNS)
    names = [name for row in ROWS for name, cell in zip(COLUMNS, row, strict=True) if cell] if stacked else COLUMNS
    assert letters("".join(lines)) == letters("".join(cell for row in ROWS for cell in row) + "".join(names))
    assert stacked == (columns < 100)


def test_a_stacked_line_has_its_names_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line.rstrip() for line in printed(40, monkeypatch)]
    assert lines[:6] == [
        "rule      a_rule_with_a_name_that_goes_o",
        "          n_and_on",
        "severity  high",
        "what      ten payments of one account",
        "          within a minute",
        "source    in/some/file.yaml:3",
    ]
    assert lines[6:9] == ["", "rule      short", "severity  low"]


def test_where_no_screen_sets_a_width_a_row_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    table = Listing("a", "b")
    table.add("x" * 500, "y" * 500)
    console = screen()
    with console.capture() as captured:
        console.print(table)
    assert captured.get().splitlines()[1] == "x" * 500 + "  " + "y" * 500
    assert fitted("z" * 500) == "z" * 500


def test_markup_and_control_characters_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    console = screen()
    with console.capture() as captured:
        console.print(NameValues([("[red]a[/red]", "b\x1b[2J\u202e :smile:\nc")]))
    assert captured.get() == "[red]a[/red]  b\\x1b[2J\\u202e :smile:\\nc\n"


def test_sentences_are_broken_at_words_and_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert fitted("one two three four five\n  six seven eight nine ten").splitlines() == [
        "one two three four",
        "  five",
        "  six seven eight",
        "    nine ten",
    ]
