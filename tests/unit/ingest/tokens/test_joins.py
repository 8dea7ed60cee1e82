"""Two streams with the same sensitive field, one of Avro and one of JSON, as partitions of topics give them: joined."""

from __future__ import annotations

import io
import itertools
import json
import pickle
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
import yaml

from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.avro.records import decode_avro
from crossline.ingest.avro.schema import Node, read_schema
from crossline.ingest.decode import Decoded, decode_values
from crossline.io.tokens.opening import close_stores, decoder_of
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

START_MS, SCHEMA_ID = 1_767_225_600_000, 7
PERSONS = [4_711_000_000_000 + number for number in range(12)]
SCHEMA = {
    "type": "record",
    "name": "Payment",
    "fields": [{"name": name, "type": kind} for name, kind in (("id", "string"), ("at", "long"), ("amount", "long"))]
    + [{"name": "account", "type": "long"}, {"name": "email", "type": ["null", "string"]}],
}
RULES: list[dict[str, Any]] = [
    {
        "rule_id": "joined",
        "version": 1,
        "rule_type": "correlation",
        "source_topic": "payments",
        "context_topic": "logins",
        "correlation_key": "account",
        "window": "5m",
        "context_resolution": "last",
        "context_value_field": "score",
        "event_value_field": "amount",
        "metric": "direct",
        "condition": {"operator": ">=", "value": -1_000_000},
    },
    {
        "rule_id": "beside",
        "version": 1,
        "rule_type": "formula",
        "source_topic": "payments",
        "figures": {
            "paid": {"count": True, "group_by": "account", "window": "10m"},
            "came": {"count": True, "source_topic": "logins", "group_by": "account", "window": "10m"},
        },
        "when": "paid >= 2 and came >= 2",
    },
]


@pytest.fixture(autouse=True)
def master_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CROSSLINE_TOKEN_KEY", "0123456789abcdef" * 4)
    yield
    close_stores()


def streams_in(folder: Path, *, sensitive: bool) -> dict[str, StreamSpec]:
    """In payments the account is a number, in logins a text."""
    common = {"id": "id", "event_time": {"field": "at", "unit": "ms"}}
    payments = {"id": "string", "at": "integer", "amount": "integer", "account": "integer", "email": "string?"}
    logins = {"id": "string", "at": "integer", "score": "integer", "account": "string"}
    streams: dict[str, Any] = {
        "payments": {"format": "avro", **common, "fields": payments},
        "logins": {**common, "fields": logins},
    }
    if sensitive:
        streams["payments"]["sensitive"] = {"account": {}, "email": {"person": "account"}}
        streams["logins"]["sensitive"] = {"account": {}}
    else:  # a join needs fields of one type
        payments["account"] = "string"
    folder.mkdir()
    text = yaml.safe_dump({"schema_version": 1, "streams": streams})
    return dict(load_streams(text, str(folder / "stream.yaml")))


def traffic(*, as_text: bool) -> list[tuple[str, list[bytes]]]:
    """Values of topics, in turns of a few records."""
    dice = random.Random(5)
    schema = json.loads(json.dumps(SCHEMA))
    if as_text:
        schema["fields"][3]["type"] = "string"
    parsed = fastavro.parse_schema(schema)
    found = []
    for number in range(60):
        account, at = dice.choice(PERSONS), START_MS + 1_000 * number
        if dice.random() < 0.5:
            out = io.BytesIO()
            own: Any = str(account) if as_text else account
            body = {"id": f"p{number}", "at": at, "amount": number, "account": own, "email": f"jo{account}@example.org"}
            fastavro.schemaless_writer(out, parsed, body)
            found.append(("payments", b"\0" + SCHEMA_ID.to_bytes(4, "big") + out.getvalue()))
        else:
            body = {"id": f"l{number}", "at": at, "score": dice.randrange(9), "account": str(account)}
            found.append(("logins", json.dumps(body).encode()))
    turns = itertools.groupby(found, key=lambda each: each[0])
    return [(stream, [value for _, value in group]) for stream, group in turns]


def decoded(stream: str, spec: StreamSpec, values: Sequence[bytes], at: int, node: Node) -> Decoded:
    offsets = np.arange(at, at + len(values), dtype=np.int64)
    given = (decoder_of(stream, spec), pa.array(values, pa.binary()), f"{stream}-0", offsets, None)
    return decode_avro(*given, {SCHEMA_ID: node}) if spec.format == "avro" else decode_values(*given)


def judged(streams: dict[str, StreamSpec], *, as_text: bool) -> tuple[list[dict[str, Any]], list[Decoded]]:
    schema = json.loads(json.dumps(SCHEMA))
    if as_text:
        schema["fields"][3]["type"] = "string"
    node = read_schema([json.dumps(schema)])
    rules = RuleSet.from_rules(each.rule for each in load_rules_text(json.dumps(RULES), "rules.yaml", streams))
    plans = list(compile_all(rules, streams, Defaults()).values())
    state, found, batches, ends = new_state(2), list[dict[str, Any]](), list[Decoded](), dict.fromkeys(streams, 0)
    for stream, values in traffic(as_text=as_text):
        batches.append(decoded(stream, streams[stream], values, ends[stream], node))
        assert not batches[-1].dead, batches[-1].dead
        ends[stream] += len(values)
        detection, state = detect(plans, state, batches[-1].records)
        found += detection.alerts
    return found, batches


def about(alert: dict[str, Any]) -> str:
    names = ("rule_id", "record_id", "value", "event_time", "window_start", "window_end")
    evidence = {name: each for name, each in alert["evidence"].items() if name in {"context", "record_ids", "count"}}
    return json.dumps([*(alert[name] for name in names), evidence], sort_keys=True)


def has_person(data: str | bytes) -> bool:
    raw = data.encode() if isinstance(data, str) else data
    return any(str(each).encode() in raw or each.to_bytes(8, "little") in raw for each in PERSONS)


def test_joins_match_as_those_of_the_values(tmp_path: Path) -> None:
    plain, _ = judged(streams_in(tmp_path / "plain", sensitive=False), as_text=True)
    made, batches = judged(streams_in(tmp_path / "tokens", sensitive=True), as_text=False)
    assert {each["rule_id"] for each in plain} == {"joined", "beside"}
    assert len(plain) > 20
    plain, made = (sorted(each, key=about) for each in (plain, made))  # those of a batch are in the order of shards
    assert [about(each) for each in made] == [about(each) for each in plain]
    pairs = {(json.dumps(a["key"]), json.dumps(b["key"])) for a, b in zip(plain, made, strict=True)}
    assert len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs}), "a token each"
    assert has_person(json.dumps(plain)), "not tested"
    assert not has_person(json.dumps(made))
    columns = [each.records.fields[name] for each in batches for name in each.records.fields]
    assert not any(has_person(pickle.dumps(each)) for each in columns)
    accounts = [set(each.records.fields["account"].to_pylist()) for each in batches]
    assert set.union(*accounts[::2]) & set.union(*accounts[1::2]), "the same tokens in both streams"


def test_dead_letters_of_both_have_no_value(tmp_path: Path) -> None:
    streams = streams_in(tmp_path / "tokens", sensitive=True)
    node = read_schema([json.dumps(SCHEMA)])
    values = dict(traffic(as_text=False))
    for stream, (value, *_) in values.items():
        torn = [value[:-2], value.replace(b"2", b"{"), b"", value[:9]]
        found = decoded(stream, streams[stream], [*torn, value], 0, node)
        assert len(found.dead) >= 3
        for letter in found.dead:
            assert not has_person(f"{letter.raw!r} {letter.detail}")
            assert b"jo4711" not in (letter.raw or b"")
