from __future__ import annotations

import textwrap

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.ingest.decode import RecordLayout, make_layout


def stream(text: str) -> StreamSpec:
    """The one stream that a YAML body writes."""
    body = textwrap.indent(textwrap.dedent(text).strip(), "    ")
    return load_streams(f"schema_version: 1\nstreams:\n  s:\n{body}\n", "stream.yaml")["s"]


def layout_of(spec: StreamSpec) -> RecordLayout:
    return make_layout("s", spec)


EVENTS = stream("""
    id: id
    event_time: {field: at, unit: ms}
    fields:
      id: string
      account: string?
      amount: integer
      score: number?
      ok: boolean?
      opened: timestamp?
      tags: [string?]
      sizes: [number?]
      counts: [integer?]
      flags: [boolean?]
      days: [timestamp?]
      place: {lat: number?, lon: number?, city: {name: string?}}
      at: integer
""")
TIMES = {
    "iso text": stream("{id: id, event_time: {field: at, unit: iso8601}, fields: {id: string, at: string}}"),
    "iso stamp": stream("{id: id, event_time: {field: at, unit: iso8601}, fields: {id: string, at: timestamp}}"),
    "seconds": stream("{id: id, event_time: {field: at, unit: s}, fields: {id: integer, at: number}}"),
    "second stamps": stream("{id: id, event_time: {field: at, unit: s}, fields: {id: string, at: timestamp}}"),
    "nanos": stream("{id: id, event_time: {field: at, unit: ns}, fields: {id: string, at: integer}}"),
    "two times": stream("""
        id: meta.id
        event_time: {field: at, unit: us}
        ingest_time: {field: meta.in, unit: s}
        fields: {at: timestamp, meta: {id: string, in: integer}}
    """),
}
