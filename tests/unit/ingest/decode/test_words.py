"""What is read eight bytes at a time: every place in a word, at every distance from the end of the buffer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.values import Columns
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.decode.spans import as_bytes, count_newlines, find_newlines

HEAD = "schema_version: 1\nstreams:\n  s:\n    id: i\n    event_time: {field: t}\n"
PLAIN = make_layout("s", load_streams(HEAD + "    fields: {i: string, t: integer, x: string}\n", "s.yaml")["s"])
# In JSON a plain letter, what ends a string, escapes, a control character, characters of two to four bytes.
ODD = ["a", '\\"', "\\\\", "\\n", "\\u00e9", "\x01", "\t", "\x7f", "é", "€", "😀", "\udc80"]


def text_of(line: str) -> list[str]:
    """What the decoder reads of field ``x`` of one line; nothing where it is a dead letter."""
    records = decode_lines(PLAIN, line.encode("utf-8", "surrogateescape"), "p", 0).records
    found: list[str] = records.fields["x"].to_pylist()
    return found


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("behind", ["", " ", " " * 7, ',"more":1', "\n", " " * 20])
def test_a_string_ends_where_it_ends(odd: str, behind: str) -> None:
    for before in range(18):
        for after in (0, 1, 7, 8, 9):
            text = "b" * before + odd + "c" * after
            body = '{"i":"1","t":1,"x":"' + text + '"'
            line = body + behind + "}" if behind.startswith(",") else body + "}" + behind
            try:
                wanted = [json.loads(f'"{text}"')]
                wanted[0].encode()
            except (json.JSONDecodeError, UnicodeEncodeError):
                wanted = []
            assert text_of(line) == wanted, line


def test_a_quote_within_the_first_word_is_the_end_whatever_follows() -> None:
    for size in range(12):
        for follows in ("\x80", '"', "\\", "\x01"):
            line = '{"i":"1","t":1,"x":"' + "b" * size + '"' + follows + "}"
            assert text_of(line) == []


@pytest.mark.parametrize("size", range(1, 20))
def test_a_key_is_the_same_where_all_of_its_bytes_are(size: int) -> None:
    name = "abcdefghijklmnopqrst"[:size]
    fields = f"    fields: {{i: string, t: integer, {name}: integer?, {name}z: integer?, Z{name}: integer?}}\n"
    layout = make_layout("s", load_streams(HEAD + fields, "s.yaml")["s"])
    near = [name[:at] + "#" + name[at + 1 :] for at in range(size)]
    for key in [name, name + "z", "Z" + name, *near, name[:-1], name + "y"]:
        for tail in ("}", " }", "}" + " " * 9):
            line = '{"i":"1","t":1,"' + key + '":5' + tail
            found = decode_lines(layout, line.encode(), "p", 0).records.fields
            got = {each: found[each].to_pylist() for each in (name, name + "z", "Z" + name)}
            assert got == {each: [5 if each == key else None] for each in got}, line


@pytest.mark.parametrize("seed", range(40))
def test_newlines_are_found_where_they_are(seed: int) -> None:
    draw = np.random.default_rng(seed)
    # Those whose bits differ from a newline's in one place, and those that a borrow or a carry would turn into one.
    data = draw.choice([10, 11, 9, 138, 0, 255, 8, 2, 26], size=int(draw.integers(0, 60))).astype(np.uint8).tobytes()
    places = np.full(count_newlines(as_bytes(data)), -1, np.int64)
    find_newlines(as_bytes(data), places)
    assert places.tolist() == [at for at, byte in enumerate(data) if byte == 10]


@pytest.mark.parametrize("size", [*range(18), 31, 32, 33])
def test_texts_are_copied_whole_and_beside_each_other(size: int) -> None:
    texts = [chr(97 + number % 26) * max(size - number % 3, 1) for number in range(9)]
    lines = "\n".join(f'{{"i":"{number}","t":1,"x":"{text}"}}' for number, text in enumerate(texts))
    assert text_of(lines) == texts


def test_columns_are_made_once_and_only_when_asked_for() -> None:
    asked: list[int] = []

    def make(number: int) -> int:
        asked.append(number)
        return number * 10

    columns = Columns(("a", "b"), make)
    assert (len(columns), list(columns), asked) == (2, ["a", "b"], [])
    assert (columns["b"], columns["b"], columns.get("c"), asked) == (10, 10, None, [1])
