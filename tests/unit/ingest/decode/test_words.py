"""What is read eight bytes at a time: every place in a word, at every distance from the end of the buffer."""

from __future__ import annotations

import json

import numpy as np
import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.values import Columns
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.decode.spans import as_bytes, find_lines, find_newlines

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
    wanted = [at for at, byte in enumerate(data) if byte == 10]
    for room in {0, 1, len(wanted) // 2, len(wanted), len(wanted) + 3}:
        places = np.full(room, -1, np.int64)
        assert find_newlines(as_bytes(data), places) == len(wanted)
        assert places.tolist() == (wanted + [-1] * room)[:room]
    lines = data.split(b"\n")
    span = find_lines(data, "p", 7)
    assert [data[a:b] for a, b in zip(span.starts, span.ends, strict=True)] == lines[: len(lines) - (not lines[-1])]
    assert span.offsets.tolist() == [start + 7 for start in span.starts]


def test_lines_are_found_however_many_there_are_and_where_blocks_meet() -> None:
    for data in (b"\n" * 5_000, b"a\n" * 999 + b"b", *(b"x" * before + b"\n" + b"y" * 130 for before in range(130))):
        span = find_lines(data, "p", 0)
        wanted = data.removesuffix(b"\n").split(b"\n")
        assert [data[a:b] for a, b in zip(span.starts, span.ends, strict=True)] == wanted


DIGITS = "9081726354" * 4
NUMBERED = make_layout(
    "s", load_streams(HEAD + "    fields: {i: string, t: integer, n: number?, w: integer?}\n", "s")["s"]
)


def numbers_of(name: str, text: str, behind: str) -> list[object]:
    """What the decoder reads of a number in field ``name``; nothing where the record is a dead letter."""
    line = '{"i":"1","t":1,"' + name + '":' + text + behind
    found: list[object] = decode_lines(NUMBERED, line.encode(), "p", 0).records.fields[name].to_pylist()
    return found


@pytest.mark.parametrize("behind", ["}", " }", ',"other":[1]}', "}" + " " * 9, ',"t2":12345678}'])
@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_has_as_many_digits_as_it_has(sign: str, behind: str) -> None:
    for size in range(1, 26):
        for digits in (DIGITS[:size], "9" * size, "1" + "0" * (size - 1), "0" + DIGITS[: size - 1]):
            text = sign + digits
            well_formed = digits == "0" or not digits.startswith("0")
            fits = well_formed and -(2**63) <= int(text) < 2**63
            assert numbers_of("w", text, behind) == ([int(text)] if fits else []), text
            assert numbers_of("n", text, behind) == ([float(text) + 0.0] if well_formed else []), text


@pytest.mark.parametrize("tail", ["", "e5", "E-3", "e+07", "e400", "e-400", "e", "e+", ".5", "x"])
def test_a_fraction_has_as_many_digits_as_it_has(tail: str) -> None:
    for before in (1, 7, 8, 9, 15, 16, 17, 18, 19):
        for after in range(26):
            text = DIGITS[:before] + "." + DIGITS[:after] + tail
            try:
                value = json.loads(text)
            except json.JSONDecodeError:
                value = None
            wanted = [] if value is None or value in (float("inf"), float("-inf")) else [value]
            for behind in ("}", "}" + " " * 20):
                assert numbers_of("n", text, behind) == wanted, text
                assert numbers_of("w", text, behind) == [], text


NO_DIGITS = [*"/:;.,+-_ex~", "\x00", "\x10", "\x7f", "\xb0", "\xe9", "\u0663", "\udcb1", "\udcff"]


@pytest.mark.parametrize("odd", NO_DIGITS)
def test_a_digit_is_one_of_ten(odd: str) -> None:
    for before in range(1, 18):
        for after in ("", "1", "12345678", "123456789"):
            text = DIGITS[:before] + odd + after
            raw = ('{"i":"1","t":1,"w":' + text + "}").encode("utf-8", "surrogateescape")
            assert len(decode_lines(NUMBERED, raw, "p", 0).dead) == 1, text
            value = json.loads(text) if odd in ".e-+" and _is_json(text) else None
            raw = ('{"i":"1","t":1,"n":' + text + "}").encode("utf-8", "surrogateescape")
            decoded = decode_lines(NUMBERED, raw, "p", 0)
            if value is None or value == float("inf"):
                assert len(decoded.dead) == 1, text
            else:
                assert decoded.records.fields["n"].to_pylist() == [value], text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


KEYED = make_layout("s", load_streams(HEAD + "    fields: {i: string, t: integer, long_name: integer?}\n", "s")["s"])


@pytest.mark.parametrize("colon", [":", " :", ": ", " : ", ":\t", "\t:", ":\r", "", "::", ";", ' "', ":\x0b", ":\x00"])
def test_a_colon_stands_between_a_key_and_its_value(colon: str) -> None:
    first = b'{"i":"1","t":1,"long_name":3}\n'  # after it the second is expected to go on alike
    for name in ("i", "t", "long_name"):
        for tail in ("", " " * 9):
            line = '{"i":"2","t":2,"long_name":4}'.replace(f'"{name}":', f'"{name}"{colon}') + tail
            try:
                wanted = [3, json.loads(line)["long_name"]]
            except json.JSONDecodeError:
                wanted = [3]
            found = decode_lines(KEYED, first + line.encode(), "p", 0).records
            assert found.fields["long_name"].to_pylist() == wanted, line


@pytest.mark.parametrize(
    "line",
    [
        '{"t":2,"i":"2","long_name":4}',
        '{"long_name":4,"t":2,"i":"2"}',
        '{"i":"2","t":2}',
        '{"i":"2","t":2,"long_name":null}',
        '{"i":"2","t":2,"long_name":4,"long_name":4}',
        '{"i":"2","i":"2","t":2,"long_name":4}',
        '{"i":"2","t":2,"long_name":4,}',
        '{"i":"2","t":2,,"long_name":4}',
        '{"i":"2","t":2 ,"long_name":4}',
        '{"i":"2","t":2, "long_name":4}',
        '{"i":"2","t":2,"long_name":4,"x":1,"y":[{"long_name":9}]}',
        '{"i":"2","x":1,"t":2,"long_name":4,"x":2}',
        '{"long_name":null,"i":"2","t":2}',
        '{"i":"2","t":null,"long_name":4}',
        '{"i":"2","t":2,"long_name":4}\r',
        '{"i":"2","t":2,"long_name":4',
        '{"i":"2","t":2,"long_',
        '{"i":"2","t":2,"long_name"',
        '{"i":"2","t":2,"long_name":',
    ],
)
def test_what_comes_in_another_order_than_before_is_read_the_same(line: str) -> None:
    first = '{"i":"1","t":1,"long_name":3}\n'
    pairs: list[tuple[str, object]] = []

    def noted(given: list[tuple[str, object]]) -> dict[str, object]:
        pairs.extend(given)
        return dict(given)

    try:
        record = json.loads(line, object_pairs_hook=noted)
        good = all(type(record.get(name)) is kind for name, kind in (("i", str), ("t", int)))
        good = good and len({name for name, _ in pairs[-len(record) :]}) == len(record)
        good = good and len(pairs) == len(record) + sum(isinstance(each, list) for each in record.values())
    except json.JSONDecodeError:
        good, record = False, {}
    for given in (first + line, line + "\n" + first + line, first * 3 + line):
        found = decode_lines(KEYED, given.encode(), "p", 0).records.fields["long_name"].to_pylist()
        wanted = [record.get("long_name")] * good
        plain = [3] * given.count(first)
        assert found == (wanted + plain + wanted if given.startswith(line) else plain + wanted), given


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
