"""What is a trace, what is a row of the person, and what replaces a mention."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.erasure.places.line_files import LinesPlace
from crossline.erasure.rows import GONE, treat
from crossline.erasure.subject import PSEUDONYM, Key, Subject, form_of, is_distinctive, with_forms

from .traces import SALT


def subject(*keys: str, ids: dict[str, set[str]] | None = None) -> Subject:
    return Subject(tuple(map(Key.parse, keys)), SALT, ids or {})


@pytest.mark.parametrize("text", ["account_id", "=a7", "account_id=", " =x", ""])
def test_a_key_is_a_field_and_a_value(text: str) -> None:
    with pytest.raises(UsageError, match="expected FIELD=VALUE"):
        Key.parse(text)
    assert Key.parse("url=http://x?a=b") == Key("url", "http://x?a=b")


@pytest.mark.parametrize(
    ("row", "gone"),
    [
        ({"account_id": "a7"}, True),
        ({"account_id": "a70"}, False),
        ({"other": "a7"}, False),
        ({"key": '{"account_id":"a7"}'}, True),
        ({"key": {"device": "d1"}, "record": {"account_id": "a7"}}, True),
        ({"field": "account_id", "value": "a7"}, True),
        ({"field": "device", "value": "a7"}, False),
        ({"entities": ["device=d1", "account_id=a7"]}, True),
        ({"stream": "payments", "record_id": "p1"}, True),
        ({"stream": "logins", "record_id": "p1"}, False),
        ({"record_id": "p1"}, True),
        ({"raw": b'{"account_id": "a7"}'}, True),
        ({"raw": b"\xff\xfe a7 \x00"}, True),
        ({"raw": b"\xff\xfe"}, False),
        ({"records": [{"account_id": "a7"}]}, False),  # a window of others with a record of the person
        ({"account_id": None}, False),
        ({}, False),
    ],
)
def test_which_rows_are_of_the_person(row: dict[str, object], gone: bool) -> None:
    found = treat(subject("account_id=a7", ids={"payments": {"p1"}}), row)
    assert (found is GONE) == gone


def test_nested_fields_and_numbers_are_compared_as_text() -> None:
    mine = subject("payer.account.id=42")
    assert treat(mine, {"payer": {"account": {"id": 42}}}) is GONE
    assert treat(mine, {"payer.account.id": 42.0}) is GONE
    assert treat(mine, {"payer": {"account": {"id": [41, 42]}}}) is GONE
    row = {"payer": {"account": {"id": 421}}, "value": 42, "text": "42 payments"}
    assert treat(mine, row) is row, "a short number in another field is a figure"


def test_mentions_in_rows_of_others_become_pseudonyms_and_figures_stay() -> None:
    mine = subject("account_id=a7", ids={"payments": {"p1", "17"}})
    row = {
        "stream": "payments",
        "record_id": "p2",
        "value": 17,
        "message": "p1 of a7 and a71, a7-b (a7)",
        "body": '{"evidence":{"record_ids":["p1","p2","17"],"count":3},"value":12345678901234567890123}',
    }
    found = treat(mine, row)
    a7, p1 = mine.pseudonym("a7"), mine.pseudonym("p1")
    assert found["message"] == f"{p1} of {a7} and a71, a7-b ({a7})"
    expected = f'{{"evidence":{{"record_ids":["{p1}","p2","{mine.pseudonym("17")}"],"count":3}}'
    assert found["body"] == expected + ',"value":12345678901234567890123}'
    assert (found["value"], found["record_id"]) == (17, "p2")


def test_ids_of_any_characters_are_found_in_texts() -> None:
    mine = subject("f=x-y z", ids={"s": {"TX:1/2", "é 7", "17"}})
    told = mine.scrub_text('TX:1/2, (TX:1/2) TX:1/22 "TX:1/2": x-y z. 17')
    tx = mine.pseudonym("TX:1/2")
    assert told == f'{tx}, ({tx}) TX:1/22 "{tx}": {mine.pseudonym("x-y z")}. 17'
    assert mine.scrub({"stream": "s", "record_ids": ["é 7", "17"]})["record_ids"] == [
        mine.pseudonym("é 7"),
        mine.pseudonym("17"),
    ]


def test_ids_of_evidence_under_the_persons_key_are_learned() -> None:
    mine = subject("account_id=a7")
    alert = {"stream": "payments", "record_id": "p3", "key": {"account_id": "a7"}}
    treat(mine, {**alert, "evidence": {"record_ids": ["p1", "p2"]}})
    assert mine.ids["payments"] == {"p1", "p2", "p3"}
    other = {"stream": "payments", "record_id": "p1", "key": {"device": "d1"}}
    assert treat(mine, {**other, "evidence": {"record_ids": ["p8", "p9"]}}) is GONE
    assert mine.ids["payments"] == {"p1", "p2", "p3"}, "a device is of others too"


VALUES = st.text(string.ascii_letters + string.digits + '_-@. é"\\', min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(VALUES, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, min_size=1, max_size=3), JSON)
def test_nothing_is_left_after_a_scrub_and_a_second_one_changes_nothing(values: list[str], body: object) -> None:
    mine = subject(*(f"f={value}" for value in values))
    once = mine.scrub(body)
    assert mine.scrub(once) == once
    left = set(_strings(once)) & {value for value in values if is_distinctive(value)}
    assert not left
    assert treat(mine, {"body": once}, keeps=True)["body"] == once


@given(VALUES.filter(is_distinctive))
def test_a_pseudonym_does_not_show_what_it_replaces(value: str) -> None:
    mine = subject(f"f={value}")
    assert mine.pseudonym(value).startswith(PSEUDONYM)
    assert mine.pseudonym(value) == mine.pseudonym(value)
    other = Subject((Key("f", value),), b"another secret..")
    assert mine.pseudonym(value) != other.pseudonym(value)


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [each for one in value for each in _strings(one)]
    if isinstance(value, dict):
        return [each for pair in value.items() for one in pair for each in _strings(one)]
    return []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("José", r'"Jos\u00E9"'),
        ("José", r'"Jos\u00e9"'),
        ("a/1", r'"a\/1"'),
        ("a7", r'"\u00617"'),
        ("100000", "1e5"),
        ("100000", "10.0E+4"),
        ("-100000", "-1e5"),
    ],
)
def test_a_value_is_found_however_json_writes_it(value: str, written: str, tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    other = b'{"id":"r2","account_id":"b1"}'
    path.write_text(f'{{"id":"r1","account_id":{written}}}\n{other.decode()}\n')
    place = LinesPlace("records", lambda: [path], "payments", "id")
    mine = subject(f"account_id={value}")
    assert place.erase(mine).gone == 1
    assert path.read_bytes() == other + b"\n"
    assert mine.ids["payments"] == {"r1"}


@pytest.mark.parametrize(("known", "written"), [("r1", r'"\u00721"'), ("100000", "1e5")])
def test_an_id_is_suspected_however_json_writes_it(known: str, written: str) -> None:
    mine = subject("account_id=zz", ids={"payments": {known}})
    text = f'{{"stream":"payments","record_id":{written}}}'
    assert mine.suspects(text)
    assert treat(mine, {"body": text}) is GONE


def test_a_value_is_looked_for_in_both_canonical_forms() -> None:
    composed, decomposed = "Jos\u00e9", "Jose\u0301"
    both = (Key("name", composed), Key("name", decomposed))
    assert with_forms([both[0]]) == both
    assert with_forms([both[1]]) == both[::-1]
    assert with_forms([Key("name", "jo"), Key("name", "a²")]) == (Key("name", "jo"), Key("name", "a²"))
    mixed = composed + decomposed
    assert len(with_forms([Key("name", mixed)])) == 3
    assert [form_of(each) for each in (composed, decomposed, "jo", mixed)] == ["NFC", "NFD", None, "mixed"]
    mine = Subject(with_forms([both[0]]), SALT)
    assert treat(mine, {"name": decomposed}) is GONE
    assert mine.met == {both[1]}
    assert treat(mine, {"raw": b'{"name": "Jose\\u0301", "am'}) is GONE
    assert treat(mine, {"raw": b'{"name": "Jos\\u00e9", "am'}) is GONE
    other = {"name": "Jose", "device": "d1", "message": f"{decomposed} and {composed} paid"}
    assert decomposed not in str(treat(mine, other))
    assert composed not in str(treat(mine, other))
