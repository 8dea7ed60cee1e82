"""Distinct counts of texts: of those that were crafted to have one XXH64, over batches, shards and restarts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics import wire
from crossline.basics.errors import StateError
from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState, judge
from crossline.evaluate.state_log import apply_delta, encode_delta
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.route.part_codec import pack, unpack
from crossline.ingest.route.partitioner import Chunk, route
from crossline.plan.compile import compile_stream
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.state.memory.hashing import keyed_many
from crossline.state.windows import store
from drawing import one_of_these

SPEC = load_streams(
    """
schema_version: 1
streams:
  s: {id: id, event_time: {field: t}, fields: {id: string, t: integer, k: string, x: string?, y: string?}}
""",
    "stream.yaml",
)["s"]
RULES = """
- {rule_id: x, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: distinct_count,
   aggregation_field: x, aggregation_threshold: 0, window: 30s, emit: every}
- {rule_id: y, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: distinct_count,
   aggregation_field: y, aggregation_threshold: 0, window: 10s, emit: every}
"""
PLAN = compile_stream(RuleSet.from_rules(r.rule for r in load_rules_text(RULES, "r.yaml")), "s", SPEC, Defaults())
LAYOUT = make_layout("s", SPEC)
P1, P2, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MOST = 2**64 - 1

Row = dict[str, Any]


def turned(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & MOST


def stirred(word: int) -> int:
    """What XXH64 makes of 8 bytes before it takes them in."""
    return turned(word * P2 & MOST, 31) * P1 & MOST


def before(word: int) -> int:
    """The 8 bytes of which XXH64 makes that: each of its steps can be gone back."""
    return turned(word * pow(P1, -1, 2**64) & MOST, 33) * pow(P2, -1, 2**64) & MOST


def crafted(count: int) -> list[str]:
    """Texts of 16 bytes with the same XXH64 of seed 0: the second half undoes what the first one did."""
    start = (P5 + 16) & MOST
    target, found = None, []
    for number in range(200_000_000):
        first = f"{number:08d}".encode()
        after = turned(start ^ stirred(int.from_bytes(first, "little")), 27) * P1 + P4 & MOST
        target = target if target is not None else after ^ stirred(int.from_bytes(b"00000000", "little"))
        second = before(after ^ target).to_bytes(8, "little")
        if all(byte < 0x80 for byte in second):
            found.append((first + second).decode())
            if len(found) == count:
                break
    return found


def run(
    batches: list[list[Row]], shards: int = 1, *, restart: Callable[[], None] | None = None
) -> list[tuple[str, str, int]]:
    """Rule, record and value of each alert."""
    states, segments = [ShardState() for _ in range(shards)], [list[bytes]() for _ in range(shards)]
    texts = []
    for number, rows in enumerate(batches):
        lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        pieces = [decode_lines(LAYOUT, part, "log", at).records for part, at in halves(lines)]
        parts = [
            p
            for i, piece in enumerate(pieces)
            for p in route(PLAN, piece, Chunk("log", 2 * number + i, "log"), shards, {})
        ]
        for shard in range(shards):
            mine = list(unpack(pack(p for p in parts if p.shard == shard), "test"))
            output = judge([PLAN], states[shard], mine, Bounds())
            segments[shard].append(encode_delta(number, states[shard], output.deltas))
            texts += [(hit.version.rule.rule_id, hit.record_id, hit.value) for hit in output.hits]
            if restart is not None:
                restart()
                states[shard] = ShardState()
                for segment in segments[shard]:
                    apply_delta([PLAN], states[shard], *wire.decode(segment, "segment"), Bounds())
    return sorted(texts)


def halves(lines: bytes) -> list[tuple[bytes, int]]:
    """Two chunks, each with where it starts."""
    split = lines.splitlines(keepends=True)
    first, second = b"".join(split[: len(split) // 2]), b"".join(split[len(split) // 2 :])
    return [(first, 0), (second, len(first))]


def naive(rows: list[Row]) -> list[tuple[str, str, int]]:
    lines = []
    for place, row in enumerate(rows):
        for field, window in (("x", 30_000), ("y", 10_000)):
            inside = [r for r in rows[: place + 1] if r["k"] == row["k"] and row["t"] - window < r["t"] <= row["t"]]
            if row.get(field) is not None:
                lines.append((field, row["id"], len({r[field] for r in inside if r.get(field) is not None})))
    return sorted(lines)


def test_texts_of_one_hash_count_each() -> None:
    texts = crafted(3)
    assert len({xxhash.xxh64_intdigest(text.encode(), 0) for text in texts}) == 1
    rows = [{"id": f"r{n}", "t": n, "k": "a", "x": text} for n, text in enumerate(texts)]
    assert run([rows]) == [("x", "r0", 1), ("x", "r1", 2), ("x", "r2", 3)]


TEXTS = st.none() | st.sampled_from(["", "a", "b", "été", "a" * 40])


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([1, 2, 3, 8, 9, 11]), st.booleans())
def test_the_same_however_cut_and_put_away(data: st.DataObject, shards: int, restart: bool) -> None:
    rows: list[Row] = []
    now = 0
    for number in range(data.draw(st.integers(1, 25))):
        now += data.draw(one_of_these(0, 1000, 6000, 20_000))
        rows.append(
            {
                "id": f"r{number}",
                "t": now,
                "k": data.draw(st.sampled_from("ab")),
                "x": data.draw(TEXTS),
                "y": data.draw(TEXTS),
            }
        )
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    batches = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    assert run([b for b in batches if b], shards, restart=(lambda: None) if restart else None) == naive(rows)


def test_a_restart_under_another_secret_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes die with the process; what is written down is the texts."""
    rows = [{"id": f"r{n}", "t": n, "k": "a", "x": text} for n, text in enumerate(["one", "two", "one", "three"])]
    lots: list[int] = []
    monkeypatch.setattr(store, "keyed_many", lambda data, offsets: keyed_many(data, offsets, (len(lots), 0)))
    assert run([[row] for row in rows], restart=lambda: lots.append(0)) == naive(rows)
    assert len(lots) == len(rows)


def test_state_of_the_format_before_is_refused_with_what_to_do() -> None:
    blob = bytearray(wire.encode({}, {}))
    blob[4:8] = (1).to_bytes(4, "little")
    with pytest.raises(
        StateError, match="state format 1, this version reads 3; run the version that wrote it, or start"
    ):
        wire.decode(bytes(blob), "s/1.seg")
