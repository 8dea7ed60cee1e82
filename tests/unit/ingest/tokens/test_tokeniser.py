"""Tokens of columns and of records: worked by hand, and the law that they are equal where their values are."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.basics.errors import UsageError
from crossline.basics.streams.inputs import tokenised
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.ingest.decode import PlainForm, decode_csv, decode_lines, decode_table, make_layout
from crossline.ingest.tokens.letters import WITHHELD
from crossline.ingest.tokens.token import is_token, token_of
from crossline.ingest.tokens.tokeniser import Tokeniser

STREAMS = """
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at, unit: ms}
    fields:
      id: string
      at: integer
      account_id: integer?
      email: string?
      card: {number: string?}
      amount: number
    sensitive:
      account_id: {}
      email: {person: account_id}
      card.number: {domain: pan}
"""
SPEC = load_streams(STREAMS, "stream.yaml")["payments"]
AT = 1_700_000_000_000


class Keys:
    """A key that is a digest of the person: as random as the tests need it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.destroyed: dict[tuple[str, str], int] = {}

    def generation(self) -> int:
        return sum(self.destroyed.values())

    def keys(self, domain: str, persons: Sequence[str]) -> list[bytes]:
        self.asked += [(domain, each) for each in persons]
        return [key_of(domain, each, self.destroyed.get((domain, each), 0)) for each in persons]


def key_of(domain: str, person: str, number: int = 0) -> bytes:
    return hashlib.sha256(f"{domain}|{person}|{number}".encode()).digest()


def naive(domain: str, value: str, person_domain: str, person: str) -> str:
    """HMAC-SHA256 as RFC 2104 writes it, without the library that the code uses."""
    key = key_of(person_domain, person).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + domain.encode() + b"\0" + value.encode()).digest()
    outer = hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).digest()
    return "tok_" + base64.b32encode(outer[:15]).decode().lower()


def tokeniser(spec: StreamSpec = SPEC) -> Tokeniser:
    return Tokeniser(spec, Keys())


def line(number: int, **fields: object) -> bytes:
    return json.dumps({"id": f"r{number}", "at": AT + number, "amount": 1.5, **fields}).encode() + b"\n"


def test_a_token_worked_by_hand() -> None:
    # RFC 4231, test case 2, has no NUL in its data; its key with ours: HMAC(key "Jefe", "what\0do ya want").
    digest = hmac.new(b"Jefe", b"what\0do ya want", hashlib.sha256).digest()
    assert token_of(b"Jefe", "what", "do ya want") == "tok_" + base64.b32encode(digest[:15]).decode().lower()
    assert len(token_of(b"k" * 32, "email", "a@b.c")) == 28
    assert is_token(token_of(b"k" * 32, "email", "a@b.c"))
    assert not is_token("tok_short")


def test_columns_of_lines_have_tokens() -> None:
    data = b"".join(
        [
            line(1, account_id=5, email="a@x", card={"number": "4111"}),
            line(2, account_id=6, email="a@x"),
            line(3, email="a@x"),
            line(4, account_id=5, email=None, card={"number": "4111"}),
        ]
    )
    records = decode_lines(make_layout("payments", SPEC, tokeniser()), data, "f", 0).records
    five, six = (naive("account_id", each, "account_id", each) for each in ("5", "6"))
    assert records.fields["account_id"].to_pylist() == [five, six, None, five]
    assert records.fields["email"].to_pylist() == [
        naive("email", "a@x", "account_id", "5"),
        naive("email", "a@x", "account_id", "6"),
        naive("email", "a@x", "email", "a@x"),  # nobody is named: the value is
        None,
    ]
    card = naive("pan", "4111", "pan", "4111")
    assert records.fields["card.number"].to_pylist() == [card, None, None, card]
    assert records.fields["amount"].to_pylist() == [1.5] * 4
    assert records.ids.to_pylist() == ["r1", "r2", "r3", "r4"]


def test_tables_and_csv_have_the_same_tokens() -> None:
    layout = make_layout("payments", SPEC, tokeniser())
    table = pa.table({"id": ["a"], "at": [AT], "account_id": [5], "email": ["a@x"], "amount": [1.0]})
    of_table = decode_table(layout, table, "t", np.arange(1)).records.fields
    of_csv = decode_csv(layout, ["id", "at", "account_id", "email", "amount"], b"a,%d,5,a@x,1\n" % AT, "c", 0)
    for name in ("account_id", "email"):
        assert of_table[name].to_pylist() == of_csv.records.fields[name].to_pylist()
    assert of_table["account_id"].to_pylist() == [naive("account_id", "5", "account_id", "5")]


def test_nothing_of_a_dead_letter_is_shown() -> None:
    data = line(1, account_id="bob@secret", amount="bob@secret") + b'{"id": "r2", "email": "bob@secret"\n'
    dead = decode_lines(make_layout("payments", SPEC, tokeniser()), data, "f", 0).dead
    assert [each.reason for each in dead] == ["wrong_type", "malformed_json"]
    assert [each.detail for each in dead] == [
        "field account_id: found a value that is withheld, expected integer",
        "the text is withheld: the stream has sensitive fields",
    ]
    assert {each.raw for each in dead} == {WITHHELD}
    assert [each.record_id for each in dead] == ["r1", None]
    assert b"secret" not in repr(dead).encode()


def test_a_stream_without_sensitive_fields_is_decoded_as_ever() -> None:
    plain = load_streams(STREAMS.partition("    sensitive:")[0], "stream.yaml")["payments"]
    layout = make_layout("payments", plain)
    assert layout.tokens is None
    dead = decode_lines(layout, line(1, account_id="x"), "f", 0).dead
    assert dead[0].raw == line(1, account_id="x").rstrip()
    assert "sensitive" not in plain.model_dump_json()
    assert "tokens" not in plain.model_dump_json()


def test_no_decoder_without_tokens() -> None:
    with pytest.raises(UsageError, match="has sensitive fields"):
        make_layout("payments", SPEC)
    assert PlainForm.of(make_layout("payments", SPEC, tokeniser())) is None


def test_one_record() -> None:
    given = {"id": "r", "account_id": 5, "email": "a@x", "card": {"number": "4111", "kind": "debit"}}
    made = tokeniser().record(given)
    assert made == {
        "id": "r",
        "account_id": naive("account_id", "5", "account_id", "5"),
        "email": naive("email", "a@x", "account_id", "5"),
        "card": {"number": naive("pan", "4111", "pan", "4111"), "kind": "debit"},
    }
    assert given["card"] == {"number": "4111", "kind": "debit"}
    assert tokeniser().record({"id": "r", "card": None, "email": None}) == {"id": "r", "card": None, "email": None}


def test_nobody_takes_the_token_of_another_by_sending_it() -> None:
    tokens = tokeniser()
    theirs = tokens.value("card.number", "4111")
    field = tokens.fields["card.number"]
    sent = tokens.column(field, pa.array([theirs, "4111"]), None).to_pylist()
    assert sent == [naive("pan", theirs, "pan", theirs), theirs]
    assert tokens.record({"card": {"number": theirs}}) == {"card": {"number": sent[0]}}
    mail = tokens.record({"account_id": 5, "email": theirs})["email"]
    assert mail == naive("email", theirs, "account_id", "5")


def test_a_token_in_a_list_stands_for_itself() -> None:
    tokens = tokeniser()
    once = tokens.value("card.number", "4111")
    tokens.value("card.number", once)  # a record that has it as its value
    assert tokens.values("card.number", [once, "4111", "4222"]) == [once, once, naive("pan", "4222", "pan", "4222")]


def test_after_a_key_is_destroyed_nothing_remembered_is_used() -> None:
    tokens = tokeniser()
    before = tokens.value("account_id", 5)
    other = tokens.value("account_id", 6)
    assert isinstance(tokens.keys, Keys)
    tokens.keys.destroyed["account_id", "5"] = 1
    assert tokens.value("account_id", 5) not in {before, other}
    assert tokens.value("account_id", 6) == other


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
ROWS = st.lists(st.tuples(st.none() | st.integers(0, 3), st.none() | TEXTS), max_size=12)


@given(ROWS)
def test_tokens_are_equal_where_values_of_a_person_are(rows: list[tuple[int | None, str | None]]) -> None:
    tokens = tokeniser()
    persons, values = ([row[place] for row in rows] for place in (0, 1))
    made = tokens.column(tokens.fields["email"], pa.array(values, pa.string()), pa.array(persons, pa.int64()))
    found = made.to_pylist()
    assert [each is None for each in found] == [each is None for each in values]
    for one, token in zip(rows, found, strict=True):
        for other, another in zip(rows, found, strict=True):
            if token is not None and another is not None:
                assert (token == another) == (one == other)


@given(st.lists(st.none() | TEXTS, max_size=12), st.integers(0, 3))
def test_tokens_are_equal_where_values_are(values: list[str | None], start: int) -> None:
    tokens = tokeniser()
    array = pa.array(values, pa.string())[min(start, len(values)) :]
    found = tokens.column(tokens.fields["card.number"], array, None).to_pylist()
    assert found == [None if each is None else naive("pan", each, "pan", each) for each in array.to_pylist()]
    pairs = list(zip(array.to_pylist(), found, strict=True))
    assert all((a == b) == (x == y) for a, x in pairs for b, y in pairs)


def test_a_dead_letter_of_csv_has_no_id_for_a_value_may_stand_in_its_place() -> None:
    header = ["id", *(each for each in SPEC.raw_columns if each != "id")]
    cells = dict.fromkeys(header, "x") | {"id": "bob@secret"}
    row = ",".join(cells[name] for name in header).encode() + b"\n"
    for tokens, found in ((tokeniser(), None), (None, "bob@secret")):
        spec = SPEC if tokens is not None else tokenised(SPEC)
        (letter,) = decode_csv(make_layout("payments", spec, tokens), header, row, "f", 0).dead
        assert letter.record_id == found
        assert (b"bob" in (letter.raw or b"")) == (tokens is None)
