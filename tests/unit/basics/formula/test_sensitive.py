"""What formulas may ask of sensitive fields."""

from __future__ import annotations

import pytest

from crossline.basics.formula.check import check
from crossline.basics.formula.sensitive import wrong_in
from crossline.basics.streams.schema import load_streams

STREAM = """
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at, unit: ms}
    fields: {id: string, at: integer, account: string, email: string?, payee: string, name: string}
    sensitive: {account: {domain: account}, email: {person: account}, payee: {domain: account}}
"""
COLUMNS = load_streams(STREAM, "s.yaml")["s"].own_columns
TOKEN = "tok_" + "a" * 24
NO_TOKEN = "a value that is no token, since {} is sensitive"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("account == 'bob'", NO_TOKEN.format("account")),
        ("'bob' != account", NO_TOKEN.format("account")),
        (f"account in ('bob', '{TOKEN}')", NO_TOKEN.format("account")),
        ("not (missing(email) or account == 'bob')", NO_TOKEN.format("account")),
        ("coalesce(email, 'none') == 'bob'", NO_TOKEN.format("email")),
        ("coalesce(email, 'none') in ('none', 'bob')", NO_TOKEN.format("email")),
        ("account < payee", "< on account, which is sensitive"),
        ("coalesce(name, account) == name", "account, which is sensitive, beside other values"),
        ("account == name", "account, which is sensitive, beside other values"),
        (f"account == '{TOKEN}'", None),
        ("account == payee", None),
        ("missing(email)", None),
        ("coalesce(email, 'none') == 'none'", None),
        (f"coalesce(email, 'none') in ('none', '{TOKEN}')", None),
        ("coalesce(account, payee) == payee", None),
        ("name == 'bob'", None),
    ],
)
def test_a_token_is_equal_to_tokens_alone(text: str, found: str | None) -> None:
    kinds = {name: each.kind for name, each in COLUMNS.items()}
    findings = wrong_in([check(text, kinds, ("when",), wanted="verdict")], COLUMNS, [("when",)])
    assert [each.found for each in findings] == ([] if found is None else [found])
    assert all(each.hidden for each in findings)
