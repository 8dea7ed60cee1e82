"""Compile the kernels once, into numba's cache beside the code: the first batch of a pipeline does not wait then."""

from __future__ import annotations

import sys
import time

from crossline.core.basics import wire
from crossline.core.decode import decode_lines, make_layout
from crossline.core.judge.detect import detect, new_state
from crossline.core.judge.persist import apply_delta, encode_delta
from crossline.core.judge.shard import Bounds, ShardState, judge
from crossline.core.panes.store import warm as warm_panes
from crossline.core.plan.compile import compile_stream
from crossline.core.route.parts import Chunk, route
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, load_rules_text
from crossline.core.streams.schema import load_streams

_STREAM = """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, v: integer}}
"""
_RULE = """
- {rule_id: r, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: sum,
   aggregation_field: v, aggregation_threshold: 3, window: 10s}
"""
_LINES = b"".join(b'{"i":"a%d","t":%d,"k":"x","v":1}\n' % (n, 1_000 * n) for n in range(8))


def warm(*, panes: bool = False) -> float:
    """Run the kernels on a handful of records; the seconds it took.

    That is a minute when nothing is cached, else about two seconds. ``panes``: the kernel of panes too, which takes as
    long again; where no rule has a resolution, nobody needs it.
    """
    begun = time.monotonic()
    if panes:
        warm_panes()
    spec = load_streams(_STREAM, "warm")["s"]
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(_RULE, "warm"))
    plan = compile_stream(rules, "s", spec, Defaults())
    records = decode_lines(make_layout("s", spec), _LINES, "warm", 0).records
    detect(plan, new_state(), records)
    parts = [(p.meta, p.arrays) for p in route(plan, records, Chunk("s", 0, "warm"), 1, {})]
    state = ShardState()
    output = judge([plan], state, parts, Bounds())
    apply_delta([plan], ShardState(), *wire.decode(encode_delta(0, state, output.deltas), "warm"), Bounds())
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.stderr.write("compiling kernels (two minutes the first time)\n")
    sys.stderr.write(f"kernels ready after {warm(panes=True):.1f} s\n")
