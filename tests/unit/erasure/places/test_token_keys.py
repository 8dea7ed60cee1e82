"""Keys of sensitive fields: tokens of all streams are looked for, and every key of the person is destroyed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.erasure.places.token_keys import TokenKeysPlace, with_tokens
from crossline.erasure.subject import Key, Subject
from crossline.io.tokens.lookup import has_key
from crossline.io.tokens.opening import close_stores, tokeniser_of
from unit.erasure.traces import SALT

STREAMS = """
schema_version: 1
streams:
  one:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string?, email: string?}
    sensitive: {account: {}, email: {person: account}}
  two:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string}
    sensitive: {account: {domain: another}}
"""
ACCOUNT, EMAIL = Key("account", "a1"), Key("email", "jo@x")


@pytest.fixture
def streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, StreamSpec]]:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", "0123456789abcdef" * 4)
    yield load_streams(STREAMS, str(tmp_path / "stream.yaml"))
    close_stores()


def token(spec: StreamSpec, key: Key, person: str | None = None) -> Key:
    tokens = tokeniser_of(spec)
    assert tokens is not None
    return Key(key.field, tokens.value(key.field, key.value, person))


def test_tokens_of_all_streams_and_of_all_owners(streams: Mapping[str, StreamSpec]) -> None:
    assert with_tokens(streams, [ACCOUNT, EMAIL]) == (ACCOUNT, EMAIL), "nobody of these was ever seen"
    assert not has_key(streams, ACCOUNT.field, ACCOUNT.value), "none was made"
    one, two = streams["one"], streams["two"]
    expected = {ACCOUNT, EMAIL, token(one, ACCOUNT), token(two, ACCOUNT), token(one, EMAIL, "a1"), token(one, EMAIL)}
    assert len(expected) == 6
    found = with_tokens(streams, [ACCOUNT, EMAIL])
    assert set(found) == expected
    assert found[0] == ACCOUNT
    given = token(one, EMAIL, "a1")
    assert with_tokens(streams, [given]) == (given,)


def test_a_value_under_the_key_of_a_person_needs_that_person(streams: Mapping[str, StreamSpec]) -> None:
    with pytest.raises(UsageError, match=r"found email, .* the person that account names; .*: --key account=VALUE"):
        with_tokens(streams, [EMAIL])


def test_every_key_is_destroyed(streams: Mapping[str, StreamSpec]) -> None:
    one, two = streams["one"], streams["two"]
    before = [token(one, ACCOUNT), token(two, ACCOUNT), token(one, EMAIL, "a1"), token(one, EMAIL)]
    other = token(one, Key("account", "a2"))
    place, mine = TokenKeysPlace(streams), Subject((ACCOUNT, EMAIL), SALT)
    assert place.find(mine).gone == 2
    assert place.erase(mine).gone == 2
    assert not place.find(mine).found
    after = [token(one, ACCOUNT), token(two, ACCOUNT), token(one, EMAIL, "a1"), token(one, EMAIL)]
    assert not {*before} & {*after}
    assert token(one, Key("account", "a2")) == other
