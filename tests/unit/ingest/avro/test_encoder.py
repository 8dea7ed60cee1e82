"""Records mended as JSON become the bytes that fastavro reads again; what is broken is shown as far as it goes."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossline.ingest.avro.encoder import UnfitError, encoded
from crossline.ingest.avro.view import Viewed, viewed

from .avrokit import ID, node, record_schema, written

LOGICAL = record_schema(
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("micros", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("day", {"type": "int", "logicalType": "date"}),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("who", {"type": "fixed", "name": "Who", "size": 16, "logicalType": "uuid"}),
    ("data", "bytes"),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["web", "cash"]}),
    ("tags", {"type": "map", "values": "int"}),
    ("payer", {"type": "record", "name": "Payer", "fields": [{"name": "account", "type": "string"}]}),
    ("either", ["null", "double", "long", "string"]),
)
GIVEN = {
    "id": "t1",
    "event_time": 5,
    "at": datetime(2026, 1, 5, 9, 15, 0, 123_000, UTC),
    "micros": None,
    "day": date(2026, 1, 5),
    "price": Decimal("-12.30"),
    "who": UUID(int=7).bytes,
    "data": b"\x00\xff",
    "kind": "cash",
    "tags": {"a": 1, "b": -2},
    "payer": {"account": "a1"},
    "either": "x",
}
SHOWN = {
    "id": "t1",
    "event_time": 5,
    "at": "2026-01-05T09:15:00.123000Z",
    "micros": None,
    "day": "2026-01-05",
    "price": "-12.30",
    "who": "00000000-0000-0000-0000-000000000007",
    "data": "00ff",
    "kind": "cash",
    "tags": {"a": 1, "b": -2},
    "payer": {"account": "a1"},
    "either": "x",
}


def read(schema: Any, raw: bytes) -> Any:
    assert raw[:5] == b"\0" + ID.to_bytes(4, "big")
    stream = io.BytesIO(raw[5:])
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), None)
    assert stream.read() == b"", "nothing is left"
    return found


def test_what_is_shown_becomes_the_same_bytes() -> None:
    raw = written(LOGICAL, GIVEN)
    found = viewed({ID: node(LOGICAL)}, raw)
    assert found == Viewed(ID, SHOWN, "", len(raw))
    again = encoded(ID, node(LOGICAL), json.loads(json.dumps(SHOWN)))
    assert again == raw
    assert read(LOGICAL, again) == GIVEN
    for either in (2**53 + 1, 1.5, None):  # a double would have cut the first
        assert read(LOGICAL, encoded(ID, node(LOGICAL), {**SHOWN, "either": either}))["either"] == either


@given(
    st.fixed_dictionaries(
        {
            "id": st.text(),
            "event_time": st.integers(-(2**63), 2**63 - 1),
            "i": st.integers(-(2**31), 2**31 - 1),
            "d": st.floats(allow_nan=False),
            "b": st.booleans(),
            "many": st.lists(st.one_of(st.none(), st.text(), st.booleans())),
            "maybe": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        }
    )
)
def test_whatever_is_given_fastavro_reads_it(record: dict[str, Any]) -> None:
    many = {"type": "array", "items": ["null", "string", "boolean"]}
    schema = record_schema(("i", "int"), ("d", "double"), ("b", "boolean"), ("many", many), ("maybe", ["null", "long"]))
    infinite = {float("inf"): "Infinity", float("-inf"): "-Infinity"}
    raw = encoded(ID, node(schema), {**record, "d": infinite.get(record["d"], record["d"])})
    assert read(schema, raw) == record
    assert viewed({ID: node(schema)}, raw).broke == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"at": "soon"}, "field at: found 'soon', expected an instant, such as 2026-01-05T09:15:00Z"),
        ({"at": "2026-01-05T09:15:00.0001Z"}, "field at: found '2026-01-05T09:15:00.0001Z', expected no more digits"),
        ({"day": 2**31}, "field day: found 2147483648, expected a whole number, date of 32 bits"),
        ({"price": "1.234"}, "field price: found '1.234', expected a decimal number with at most 2 digits"),
        ({"price": True}, "field price: found True"),
        ({"who": "7"}, "field who: found '7', expected a UUID"),
        ({"data": "zz"}, "field data: found 'zz', expected bytes in hex"),
        ({"kind": "card"}, "field kind: found 'card', expected one of web, cash"),
        ({"tags": {"a": "1"}}, "field tags.a: found '1', expected a whole number, int"),
        ({"payer": {}}, "field payer.account: found null, expected text"),
        ({"payer": {"account": "a", "x": 1}}, "field payer: found field x, which the schema has not"),
        ({"either": [1]}, r"field either: found \[1\], expected one of null, double, long, string"),
        ({"event_time": 1.5}, "field event_time: found 1.5, expected a whole number, long of 64 bits"),
        ({"event_time": True}, "field event_time: found True"),
        ({"id": None}, "field id: found null, expected text"),
        ({"odd": 1}, "found field odd, which the schema has not"),
    ],
)
def test_what_has_no_bytes_is_reported(change: dict[str, Any], why: str) -> None:
    with pytest.raises(UnfitError, match=why):
        encoded(ID, node(LOGICAL), {**SHOWN, **change})


def test_a_broken_record_is_shown_as_far_as_it_goes() -> None:
    raw, schemas = written(LOGICAL, GIVEN), {ID: node(LOGICAL)}
    for end in range(len(raw)):
        found = viewed(schemas, raw[:end])
        assert found.broke
        assert found.read <= end
        if found.record is not None:
            whole = {name: each for name, each in found.record.items() if name not in {"tags", "payer"}}
            assert whole.items() <= SHOWN.items()
    cut = viewed(schemas, raw[:20])
    assert cut.record is not None
    assert list(cut.record) == ["id", "event_time", "at", "micros", "day"]
    assert cut.broke.startswith("field price: found a length of")
    assert viewed(schemas, raw + b"!").broke == "found 1 bytes behind the record"
    assert viewed({}, raw) == Viewed(ID, None, f"nothing is known of schema {ID}", 5)
    assert viewed({ID: "the registry is away"}, raw).broke == "the registry is away"
    assert viewed(schemas, b'{"id": 1}').schema is None
    assert viewed({ID: node("string")}, raw[:5] + b"\x02a").record is None
    nan = record_schema(("d", "double"))
    found = viewed({ID: node(nan)}, written(nan, {"id": "t", "event_time": 1, "d": float("nan")}))
    assert found.record == {"id": "t", "event_time": 1, "d": "NaN"}
