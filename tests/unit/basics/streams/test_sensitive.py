"""Declarations of sensitive fields: what they say of a stream, and what is refused."""

from __future__ import annotations

import pytest

from crossline.basics.streams.inputs import as_came, tokenised
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.texts.problems import RefusedError

STREAM = """
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account_id: integer, email: string?, tags: "[string]", price: number}
    sensitive: {account_id: {domain: account}, email: {person: account_id}}
tokens: {path: keys/tokens.db, lists: {watched: account}}
"""


def spec(text: str = STREAM) -> StreamSpec:
    return load_streams(text, "conf/stream.yaml")["s"]


def test_a_sensitive_field_is_a_string_behind_the_decoder() -> None:
    found = spec()
    assert str(found.raw_columns["account_id"]) == "integer"
    assert str(found.columns["account_id"]) == "string"
    assert str(found.columns["email"]) == "string?"
    assert found.columns["account_id"].sensitive == "account"
    assert found.columns["account_id"].token_lists == {"watched"}
    assert found.columns["email"].sensitive == "email of one account"
    assert found.columns["price"].sensitive == ""
    assert found.tokens is not None
    assert found.tokens.path == "conf/keys/tokens.db"


def test_it_travels_to_workers() -> None:
    found = spec()
    again = StreamSpec.model_validate(found.model_dump(mode="json", by_alias=True))
    assert again == found
    assert again.columns == found.columns


def test_records_that_have_tokens_and_those_of_tests() -> None:
    found = spec()
    assert str(tokenised(found).raw_columns["account_id"]) == "string"
    assert not tokenised(found).sensitive
    assert str(as_came(found).columns["account_id"]) == "integer"
    plain = as_came(found)
    assert as_came(plain) is plain
    assert tokenised(plain) is plain


WRONG = [
    ("email: {person: account_id}", "emial: {}", 8, 'found "emial"; expected a field of this stream'),
    ("email: {person: account_id}", "tags: {}", 8, "tags of type [string]; expected a field of type string or integer"),
    ("email: {person: account_id}", "id: {}", 8, "id, the id of the record"),
    ("email: {person: account_id}", "at: {}", 8, "at, the time of the record"),
    ("email: {person: account_id}", "email: {person: acount}", 8, 'found "acount"; expected a field of this stream'),
    ("email: {person: account_id}", "email: {person: email}", 8, "found email; expected another field"),
    ("email: {person: account_id}", "email: {person: price}", 8, "price of type number"),
    ("{domain: account}", "{domain: 'a b'}", 8, "a name of letters, digits"),
    ("{domain: account}", "{person: email}", 8, "which has a person of its own"),
    ("watched: account}", "watched: email}", 9, "a domain of sensitive fields: account"),
    ("path: keys/tokens.db", "kind: postgres", 9, "the environment variable with the connection string"),
    ("path: keys/tokens.db", "dsn_env: D", 9, "kind: postgres, or no dsn_env"),
    ("path: keys/tokens.db", "master_key_env: A, master_key_file: b", 9, "both master_key_env and master_key_file"),
    ("    id: id\n", "    id: id\n    tokens: {}\n", 6, "tokens beside streams, for all of the file"),
]


@pytest.mark.parametrize(("old", "new", "line", "words"), WRONG, ids=[each[1] for each in WRONG])
def test_says_what_is_wrong(old: str, new: str, line: int, words: str) -> None:
    assert old in STREAM
    with pytest.raises(RefusedError) as refused:
        spec(STREAM.replace(old, new))
    assert words in str(refused.value)
    assert f"conf/stream.yaml:{line}" in str(refused.value)
