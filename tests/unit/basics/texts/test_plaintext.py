"""Texts from outside, made safe to show."""

from __future__ import annotations

import json

import pytest

from crossline.basics.texts.plaintext import printable, printable_json, printable_lines, spreadsheet_cell


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10 payments by Jürgen ☕", "10 payments by Jürgen ☕"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\r\n\tb\x7f\x9b2J", "a\\r\\n\\tb\\x7f\\x9b2J"),
        ("left \u202eright\u2066 \u200e", "left \\u202eright\\u2066 \\u200e"),
        ("half \ud800", "half \\ud800"),
        ("\U000e0041 tag", "\\U000e0041 tag"),
    ],
)
def test_what_does_not_print_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_line_breaks_of_our_own_stay() -> None:
    assert printable_lines("one\x1b\ntwo") == "one\\x1b\ntwo"


def test_json_stays_the_same_document() -> None:
    value = {"k": "é \u202e \x9b \U000e0041 \x7f", "n": [-1]}
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert shown.isprintable()
    assert "é" in shown
    assert json.loads(shown) == value


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("  =1+1", "'  =1+1"),
        ("+49 30 1234", "'+49 30 1234"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("-12.50", "-12.50"),
        ("-7", "-7"),
        ("-", "'-"),
        ("\t=1+1", "\\t=1+1"),
        ("\r=1", "\\r=1"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_spreadsheet_runs_nothing(text: str, cell: str) -> None:
    assert spreadsheet_cell(text) == cell
