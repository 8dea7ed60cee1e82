"""Files of tables: the valid forms of each format, and an error with its line for everything wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.ingest.enrich.rows import TableFile, TableForm, form_of, read_table
from crossline.ingest.enrich.table import Table
from crossline.ingest.route.keys import keys_of

STREAM = """\
schema_version: 1
streams:
  s:
    id: id
    event_time: {field: at}
    fields: {id: string, account: string, shop: integer?, at: integer}
"""
PROFILE = {"key": {"account": "id"}, "fields": {"country": "string", "risk": "number?", "born": "timestamp?"}}
BY_BOTH = {"key": {"account": "account", "shop": "shop"}, "fields": {"score": "integer"}, "valid_from": "since"}


def form(declared: dict[str, Any] | None = None) -> TableForm:
    spec = load_streams(STREAM, "stream.yaml")["s"]
    return form_of("t", StreamSpec.model_validate({**spec.model_dump(), "enrich": {"t": declared or PROFILE}}))


def file(name: str, data: bytes | pa.Table) -> TableFile:
    return TableFile(name, data) if isinstance(data, bytes) else TableFile(name, b"", data)


def rows_by_key(table: Table, keys: Sequence[str]) -> list[Any]:
    asked = keys_of([pa.array(keys)], plain=True)
    found = table.find(asked.hashes, asked.values)
    _, _, rows = table.points(found, 0, 0, 0)
    return [
        None if row < 0 else tuple(column[row].as_py() for column in table.fields.values()) for row in rows.tolist()
    ]


ROWS = [
    {"id": "a1", "country": "NO", "risk": 0.5, "born": 86_400_000, "more": 1},
    {"id": "a2", "country": "", "risk": None, "born": None, "more": 2},
]
CSV = b'id,more,country,risk,born\na1,1,NO,0.5,1970-01-02T00:00:00Z\n\na2,2,"",,\n'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.jsonl", b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)),
        ("t.csv", CSV),
        ("t.csv", b"\xef\xbb\xbf" + CSV.replace(b"\n", b"\r\n")),
        ("t.parquet", pa.Table.from_pylist(ROWS)),
    ],
)
def test_each_format_gives_the_same_rows(name: str, data: bytes | pa.Table) -> None:
    table = Table(read_table(form(), [file(name, data)]))
    assert rows_by_key(table, ["a2", "a3", "a1"]) == [("", None, None), None, ("NO", 0.5, 86_400_000)]


def test_files_of_a_folder_are_one_table() -> None:
    files = [TableFile("b.csv", CSV), TableFile("c.jsonl", b'{"id": "a3", "country": "SE"}\n')]
    assert rows_by_key(Table(read_table(form(), files)), ["a3", "a1"]) == [
        ("SE", None, None),
        ("NO", 0.5, 86_400_000),
    ]
    assert Table(read_table(form(), [TableFile("empty.jsonl", b"")])).rows == 0


def refusal(declared: dict[str, Any] | None, *files: tuple[str, bytes | pa.Table]) -> str:
    with pytest.raises(RefusedError) as caught:
        read_table(form(declared), [file(*each) for each in files])
    return str(caught.value)


def test_everything_that_is_wrong_is_reported_at_its_line() -> None:
    """Types, what is missing, and keys that come twice, over all files."""
    lines = b'{"id": "a1", "country": 5}\n{"id": "a2"}\n{"id": 3, "country": "NO"}\n{"id": "a4", "country": "NO"}\n'
    assert refusal(None, ("a.jsonl", lines), ("b.csv", b"id,country,risk,born\na5,SE,high,\na4,SE,,\n")) == (
        """\
5 problems in a.jsonl, b.csv

a.jsonl:1: country
  found number 5; expected string

a.jsonl:2
  found field country is missing or null; expected string

a.jsonl:3: id
  found number 3; expected string

b.csv:2: risk
  found string "high"; expected number

b.csv:3
  found id "a4" again; expected one row for each key
  it stands in a.jsonl:4"""
    )


def test_a_column_that_is_not_there_is_reported_with_the_nearest() -> None:
    assert refusal(None, ("a.csv", b"id,contry,risk,born\n")) == (
        """\
a.csv:1
  found no column country; expected the declared columns: one of country, risk, born, id
  did you mean contry?"""
    )
    assert "no column born" in refusal(None, ("a.parquet", pa.table({"id": ["a1"], "country": ["NO"], "risk": [1.0]})))


def test_a_key_may_have_rows_from_several_instants_but_one_from_each() -> None:
    row = '{"account": "a", "shop": 1, "score": 7, "since": %s}\n'
    lines = "".join(row % since for since in ("null", "5", '"1970-01-01T00:00:00.005Z"', "6", "null")).encode()
    assert refusal(BY_BOTH, ("a.jsonl", lines)) == (
        """\
2 problems in a.jsonl

a.jsonl:3
  found account "a", shop 1 from 1970-01-01T00:00:00.005Z on again; expected one row for each key and instant
  it stands in a.jsonl:2

a.jsonl:5
  found account "a", shop 1 from the beginning on again; expected one row for each key and instant
  it stands in a.jsonl:1"""
    )


def test_an_earlier_content_may_lack_columns_that_were_declared_since() -> None:
    table = Table(read_table(form(), [TableFile("a.csv", b"id,risk\na1,0.5\n")], lenient=True))
    assert rows_by_key(table, ["a1"]) == [(None, 0.5, None)]


def test_keys_of_a_sensitive_field_are_tokens() -> None:
    spec = load_streams(f"{STREAM}    sensitive: {{account: {{}}, shop: {{}}}}\n", "stream.yaml")["s"]
    tables = {"t": PROFILE, "u": BY_BOTH}
    declared = StreamSpec.model_validate({**spec.model_dump(), "enrich": tables})
    token = f"tok_{'a' * 24}"
    table = Table(read_table(form_of("t", declared), [file("t.csv", f"id,country,risk,born\n{token},NO,,\n".encode())]))
    assert rows_by_key(table, [token, "a1"]) == [("NO", None, None), None]
    with pytest.raises(RefusedError) as refused:
        read_table(form_of("t", declared), [file("t.csv", f"id,country,risk,born\n{token},NO,,\na1,SE,,\n".encode())])
    assert "t.csv:3: id\n  found a value that is no token; expected a token of account" in str(refused.value)
    assert "a1" not in str(refused.value)
    assert str(form_of("u", declared).columns["shop"]) == "string"
