import pickle

import pytest

from crossline.basics.streams.schema import FieldSpec, load_streams
from crossline.basics.texts.problems import RefusedError

GOOD = """\
schema_version: 1
streams:
  payments:
    format: json
    id: transaction_id
    event_time: {field: event_time, unit: ms}
    ingest_time: {field: received_at, unit: iso8601}
    fields:
      transaction_id: string
      amount_cents: integer
      location: {lat: number?, geo: {hash: string}}
      tags: [string]
      marks: [integer?]
      flags: "[boolean]?"
      event_time: integer
      received_at: string
  clicks:
    id: n
    event_time: {field: at}
    fields: {n: integer, at: timestamp}
"""


def test_reads_streams() -> None:
    streams = load_streams(GOOD, "stream.yaml")
    assert list(streams) == ["payments", "clicks"]
    payments = streams["payments"]
    assert payments.ingest_time is not None
    assert payments.ingest_time.unit == "iso8601"
    assert payments.columns == {
        "transaction_id": FieldSpec("string"),
        "amount_cents": FieldSpec("integer"),
        "location.lat": FieldSpec("number", optional=True),
        "location.geo.hash": FieldSpec("string"),
        "tags": FieldSpec("string", is_list=True),
        "marks": FieldSpec("integer", optional=True, is_list=True),
        "flags": FieldSpec("boolean", optional=True, is_list=True),
        "event_time": FieldSpec("integer"),
        "received_at": FieldSpec("string"),
    }
    assert streams["clicks"].format == "json"
    assert streams["clicks"].event_time.unit == "ms"
    assert streams["clicks"].ingest_time is None


def test_a_stream_travels_to_workers() -> None:
    streams = load_streams(GOOD, "stream.yaml")
    streams["payments"].columns  # noqa: B018 - cached on first use
    again = pickle.loads(pickle.dumps(streams))  # noqa: S301 - our own bytes
    assert again == streams
    assert again["payments"].columns == streams["payments"].columns


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("id: transaction_id", "id: transactionid", 5, "did you mean transaction_id?"),
        ("id: transaction_id", "id: tags", 5, "tags of type [string]; expected a field of type string or integer"),
        ("field: event_time", "field: evnt_time", 6, "did you mean event_time?"),
        ("field: event_time, unit: ms", "field: event_time, unit: iso8601", 6, "string or timestamp (unit iso8601)"),
        ("unit: ms", "unit: sec", 6, "expected one of ms, s, us, ns, iso8601"),
        ("field: received_at", "field: location.lat", 7, "location.lat of type number?"),
        ("      event_time: integer", "      event_time: integer?", 6, "every record has"),
        ("amount_cents: integer", "amount_cents: int", 10, "did you mean integer?"),
        ("amount_cents: integer", "amount.cents: integer", 10, "without dots"),
        ("tags: [string]", "tags: [{a: string}]", 12, "lists of mappings are not read"),
        ("tags: [string]", "tags: {}", 12, "expected a type"),
        ("format: json", "fromat: json", 4, "did you mean format?"),
        ("format: json", "format: jsonl", 4, "did you mean json?"),
        ("schema_version: 1", "schema_version: 2", 1, "expected 1"),
        ("streams:", "stream:", 2, "did you mean streams?"),
        ("  clicks:", "  cli cks:", 17, "a stream name"),
        ("  clicks:", "  ..:", 17, "not . or .."),
        ("  clicks:", "  .:", 17, "not . or .."),
        ("    fields: {n: integer, at: timestamp}", "    fields: []", 20, "a mapping of field names"),
    ],
)
def test_says_what_is_wrong(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(RefusedError) as caught:
        load_streams(GOOD.replace(old, new, 1), "stream.yaml")
    assert words in str(caught.value)
    assert line in [problem.line for problem in caught.value.problems]


def test_says_all_that_is_wrong_at_once() -> None:
    text = (
        GOOD.replace("format: json", "format: xml")
        .replace("tags: [string]", "tags: strin")
        .replace("field: at", "fild: at")
    )
    with pytest.raises(RefusedError) as caught:
        load_streams(text, "stream.yaml")
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (4, "streams.payments.format"),
        (12, "streams.payments.fields.tags"),
        (19, "streams.clicks.event_time.fild"),
    ]


@pytest.mark.parametrize("text", ["", "[]", "hello", "schema_version: 1\nstreams: {}\n"])
def test_refuses_what_is_no_streams_file(text: str) -> None:
    with pytest.raises(RefusedError):
        load_streams(text, "stream.yaml")
