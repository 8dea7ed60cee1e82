"""The errors about refused formulas are product: tests/golden/formulas/refused.txt has them word for word.

To take a change up, delete the file and run the test once; then read what it wrote.
"""

import difflib
from pathlib import Path
from unittest import mock

import pytest

from crossline.basics.formula.diagnostics import FINDINGS_MAX

from .formulakit import NAMES, as_text, refused

GOLDEN = Path(__file__).parents[3] / "golden" / "formulas" / "refused.txt"

VERDICTS = [
    # names
    "tris >= 6 and usul > 0.5",
    "location > 3",
    "abs > 3",
    "velocity > 3",
    "foo(tries) > 1 and logg(usul) > 1",
    "tries(3) > 1",
    "tries.x > 1",
    # slips
    "tris > 6 && status = 'x' || !card.present",
    "tries => 6 AND tries =< 8 OR tries <> 7",
    "tries === 6 or tries !== 7",
    "device_id == null",
    "device_id is None",
    "silent > 10 m",
    "tries > 10M and tries > 10mins and tries > 1.5ms and tries > 99999d and tries > 10q",
    "event_time > '2026-01-01T00:00:00Z'",
    "tries > '10m'",
    "status in ('declined')",
    "status in (declined)",
    "status in (declined, 'refused') or status == refused",
    "tries in 3",
    "status in ('a', 1, 'b')",
    "tries in (1, 2 + 3)",
    "tries in ()",
    # kinds
    "tries",
    "status",
    "tries and not usual",
    "status + 1 > abs(card.present)",
    "status > 3 and card.present > 1",
    "card.present < true",
    "hour(tries) > 1 and hour(status) > 2",
    'hour(event_time, "Europe/Berln") > 1',
    "hour(event_time, 2) > 1",
    "hour(event_time, localtime) > 1 or hour(event_time, 'localtime') > 1",
    "round(usual, 16) > 1 or round(usual, tries) > 1",
    "coalesce(tries, 'none', true) > 1",
    "max(tries) > 1 and sqrt() > 1 and haversine_km(1, 2) > 3",
    "-status > 1",
    "1 < tries in (1, 2)",
    "(1, 2) == tries",
    # what Python knows
    "lambda x: x > 1",
    "1 if tries > 3 else 2",
    "[x for x in tries]",
    "tries ** 2 > 1",
    "tries & 3 | 4 ^ 5 or ~tries << 2 >> 1",
    "tries[0] > 1",
    "{1: 2} == tries",
    "f'x' == status",
    "(t := tries) > 1",
    "abs(tries).real > 1",
    "max(*tries) > 1",
    "round(usual, digits=2) > 1",
    "tries > 1; tries > 2",
    "tries > 0x10 or tries > 1e or tries > 1__0",
    "tries @ 2 > usual -> 3",
    "tries > 1 ? 2 : 3",
    # order
    "tries declines > 3",
    "tries > > 3",
    "and tries > 3",
    "tries > 3 and",
    "(tries > 3",
    "tries > 3)",
    "(tries > 3]",
    "tries > , 3",
    "tries > 3, declines > 4",
    "max(tries +, ) > 1",
    "3(4) > 1",
    "tries + not card.present",
    "tries > 1 not declines > 1",
    "status == 'a' 'b'",
    # literals
    "status == 'abc",
    r"status == 'a\d'",
    "status == “abc”",
    "tries > 9223372036854775808 or tries < -9223372036854775809",
    "tries > 100000000000000000000000000000000000000000",
    "usual > 1e999",
    "tries # six > 6",
    "tries > €5",
]
VALUES = ["tries > 3", "status", "missing(status)", "declines / tris"]


def test_what_is_stated_of_refused_formulas() -> None:
    lines = [f"when: {text}\n{as_text(refused(text))}\n" for text in VERDICTS]
    lines += [f"value: {text}\n{as_text(refused(text, 'value'))}\n" for text in VALUES]
    report = "\n".join(lines)
    if not GOLDEN.exists():
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(report)
        pytest.fail(f"wrote {GOLDEN}; read it, and run again")
    assert report == GOLDEN.read_text()


def test_what_is_no_text_or_none_at_all() -> None:
    assert as_text(refused(7)) == "found 7; expected a formula, as text"
    assert as_text(refused(True)) == "found true; expected a formula, as text"
    assert as_text(refused(None)) == "found null; expected a formula, as text"
    empty = "found nothing; expected a formula\n  for instance tries >= 6 and declines / tries > 0.5"
    assert as_text(refused("")) == as_text(refused(" \n\t")) == empty


def test_half_a_character() -> None:
    expected = "found at character 12: <U+D800>; expected text; this is half a character"
    assert as_text(refused("status == '\ud800'")) == expected


def test_odd_characters_are_named() -> None:
    assert refused("tries\x00 > 1")[0].found == "at character 6: `<U+0000>`"
    assert refused("tries \u200b> 1")[0].found == "at character 7: `<U+200B>`"


def test_findings_stand_at_the_path_of_the_field() -> None:
    assert {each.path for each in refused("tris > 1 and 'x")} == {("when",)}


def test_of_very_many_the_first_are_reported() -> None:
    found = refused(" or ".join(f"x{number} > 1" for number in range(50)))
    assert len(found) == FINDINGS_MAX + 1
    assert found[0].found == "at character 1: `x0`"
    assert (found[-1].found, found[-1].expected) == ("30 more of the kind", "a formula without them")


def test_an_unknown_name_is_reported_once() -> None:
    assert len(refused("tris > 1 or tris > 2 or tris in (1, 2)")) == 1


def test_thousands_of_unknown_names_do_not_take_long() -> None:
    names = dict.fromkeys((f"field_number_{number}" for number in range(2_000)), NAMES["tries"])
    text = "+".join(f"feld{number}" for number in range(490))
    with mock.patch("difflib.get_close_matches", wraps=difflib.get_close_matches) as near:
        assert len(refused(text, "value", names)) == FINDINGS_MAX + 1
    assert near.call_count <= FINDINGS_MAX


def test_where_there_are_no_names_none_is_suggested() -> None:
    assert as_text(refused("tries > 1", names={})) == "found at character 1: `tries`; expected a field or figure"
