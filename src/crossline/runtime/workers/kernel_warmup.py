"""Compile the kernels once, into the cache of the user: the first batch of a pipeline does not wait then."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa

from crossline.basics import wire
from crossline.basics.streams.schema import StreamSpec, TimeField, load_streams
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.detect import detect, new_state
from crossline.evaluate.shard import ShardState, judge
from crossline.evaluate.state_log import apply_delta, encode_delta
from crossline.ingest.decode import decode_csv, decode_lines, decode_table, decode_values, make_layout
from crossline.ingest.decode.clock import UNIT_CODES, real_to_ms, rfc3339_ms, whole_to_ms
from crossline.ingest.route.partitioner import Chunk, route
from crossline.ingest.route.texts import warm as warm_texts
from crossline.plan.compile import StreamPlan, compile_stream
from crossline.programs.program import Comparison, Emission, Figure, Program, Window
from crossline.rules.base import Defaults, Rule
from crossline.rules.ruleset import RuleSet, RuleVersion
from crossline.runtime.machine.compile_progress import CompileProgress
from crossline.runtime.machine.lifeline import watched_lifeline
from crossline.state.windows.store import warm as warm_windows
from crossline.state.windows.store import warm_in_order

_FIELDS = {"i": "string", "t": "integer", "k": "string", "v": "integer"}
_LINES = b"".join(b'{"i":"a%d","t":%d,"k":"x","v":1}\n' % (n, 1_000 * n) for n in range(8))


_AVRO = '{"type": "record", "name": "r", "fields": [{"name": "i", "type": "string"}]}'
# What else a record's time may be, and its values.
_TIMES: dict[str, tuple[str, Any]] = {
    "{field: t}": ("integer", 1_769_851_800_000),
    "{field: t, unit: s}": ("number", 1_769_851_800.5),
    "{field: t, unit: iso8601}": ("string", "2026-01-31T09:30:00Z"),
}
_TIMED = """
schema_version: 1
streams:
  s: {id: i, event_time: %s, fields: {i: string, t: %s, u: timestamp, n: number?, b: boolean?}}
"""


class WarmupPlan(TypedDict, total=False):
    """What ``warm`` takes besides the windows."""

    panes: bool
    patterns: bool
    formats: bool
    in_order: bool
    retraction: bool
    windows: bool
    pairs: bool


ALL: WarmupPlan = {
    "panes": True,
    "patterns": True,
    "formats": True,
    "in_order": True,
    "retraction": True,
    "pairs": True,
}
# What two processes compile beside each other in half the time: about as much each, in folders of its own.
HALVES: dict[str, WarmupPlan] = {"panes": {"panes": True, "windows": False}, "rest": {**ALL, "panes": False}}

_NICE_MOST = 19


class _SampleRule(Rule):
    """A sum by key. Made as it is, without what reads, checks and describes rules, which a start need not load."""

    def program(self, spec: StreamSpec, defaults: Defaults) -> Program:  # noqa: ARG002 - of the one stream there is
        """One figure, held against a threshold."""
        feed = self.feed(defaults, ("k",))
        return Program(
            feed, (Figure(feed, "sum", Window(10_000), "v", "int"),), Comparison(">=", 3), Emission(every=False)
        )

    def canonical(self) -> dict[str, Any]:
        """What it is known by."""
        return {"rule_id": self.rule_id}


def _later(module: str, name: str = "warm") -> Callable[[], None]:
    """A function of ``module``, which is loaded when it is called: most rules do without."""

    def warm() -> None:
        getattr(import_module(module), name)()

    return warm


warm_panes = _later("crossline.state.panes.store")
warm_patterns = _later("crossline.state.patterns.store")
warm_retraction = _later("crossline.state.retraction.window_totals")
warm_pairs = _later("crossline.ingest.route.keys", "warm_pairs")

# A step of ``warm``: its name, how many were before it, and how many there are.
OnStep = Callable[[str, int, int], None]


def warm(
    *,
    panes: bool = False,
    patterns: bool = False,
    formats: bool = False,
    in_order: bool = False,
    retraction: bool = False,
    windows: bool = True,
    pairs: bool = False,
    on_step: OnStep | None = None,
) -> float:
    """Run the kernels on a handful of records; the seconds it took.

    That is half a minute when nothing is cached, else a second. ``panes``, ``patterns``: these kernels too, which take
    as long again; where no rule has a resolution, is a sequence or an absence, they are not needed. ``formats``: all
    that records may come in, not JSON lines alone. ``in_order``: what a batch is judged by whose records come far out
    of order. ``retraction``: what late records change of a key with many. ``pairs``: keys of two fields. ``windows``:
    what every pipeline needs; without it, only what is named.

    ``on_step`` is called before each step, also where all is cached; ``on_compiling`` is called when it compiles (see
    ``runtime/machine/compile_lock.py``).
    """
    begun = time.monotonic()
    wanted: list[tuple[str, Callable[[], None], bool]] = [
        ("windows with a resolution", warm_panes, panes),
        ("sequences and absences", warm_patterns, patterns),
        ("late records of large keys", warm_retraction, retraction),
        ("formats", _decode_all, formats),
        ("keys of two fields", warm_pairs, pairs),
        ("windows", warm_windows, windows),
        ("a batch", _judge_some, windows),
        ("records out of order", warm_in_order, in_order),
    ]
    steps = [(name, step) for name, step, is_wanted in wanted if is_wanted]
    for number, (name, step) in enumerate(steps):
        if on_step is not None:
            on_step(name, number, len(steps))
        step()
    return time.monotonic() - begun


def _judge_some() -> None:
    _read_times()
    warm_texts()
    spec = StreamSpec.model_construct(id="i", event_time=TimeField.model_construct(field="t"), fields=_FIELDS)
    rule = _SampleRule.model_construct(rule_id="r", version=1, rule_type="sample", source_topic="s", description="s")
    plan = compile_stream(RuleSet((RuleVersion(rule),)), "s", spec, Defaults())
    records = decode_lines(make_layout("s", spec), _LINES, "warm", 0).records
    detect(plan, new_state(), records)
    parts = [(p.meta, p.arrays) for p in route(plan, records, Chunk("s", 0, "warm"), 1, {})]
    state = ShardState()
    output = judge([plan], state, parts, Bounds())
    meta, arrays = wire.decode(encode_delta(0, state, output.deltas), "warm")
    apply_delta([plan], ShardState(), meta, arrays, Bounds())


def wanted_by(plans: Iterable[StreamPlan]) -> WarmupPlan:
    """What ``plans`` are judged by, besides windows, which all are."""
    state_stores = [each.state_store for plan in plans for each in plan.state_stores]
    return {
        "pairs": any(len(fields) == 2 for state_store in state_stores for fields in state_store.namings),
        "panes": any(state_store.resolution_ms for state_store in state_stores),
        "patterns": any(state_store.ordered or state_store.waits for state_store in state_stores),
        "retraction": any(state_store.reevaluate for state_store in state_stores),
    }


def warm_for(plans: Iterable[StreamPlan], on_step: OnStep | None = None) -> None:
    """The kernels that ``plans`` are judged by, once, before processes are forked that each would compile them."""
    warm(**wanted_by(plans), on_step=on_step)


def _decode_all() -> None:
    """Decode a record of each format, with times of each kind."""
    from crossline.ingest.avro.records import decode_avro  # noqa: PLC0415 - most pipelines have none
    from crossline.ingest.avro.schema import read_schema  # noqa: PLC0415 - as above

    at, kinds = np.zeros(1, np.int64), ["i", "t", "u", "n", "b"]
    for time_of, (kind, given) in _TIMES.items():
        layout = make_layout("s", load_streams(_TIMED % (time_of, kind), "warm")["s"])
        rest = '"u":"2026-01-31T09:30:00+01:00","n":0.1234567890123456789,"b":true'
        line = f'{{"i":"\\u00e9","t":{json.dumps(given)},{rest}}}'.encode()
        row = f'"e,",{given},2026-01-31T09:30:00Z,1.5,true\n'.encode()
        table = {"i": ["e"], "t": [given], "n": [1.5], "b": [True]}
        decode_lines(layout, line + b"\n", "warm", 0)
        decode_values(layout, pa.array([line]), "warm", at, at)
        decode_csv(layout, kinds, row, "warm", 0)
        for column in ([1.5e12], ["2026-01-31T09:30:00Z"]):
            decode_table(layout, pa.table({**table, "u": column}), "warm", at)
        decode_avro(layout, pa.array([b"\0\0\0\0\1\2a"]), "warm", at, at, {1: read_schema([_AVRO])})


def _read_times() -> None:
    """What reads one time, where a record takes the slow path."""
    text = np.frombuffer(b"2026-01-31T09:30:00Z\0", np.uint8)
    rfc3339_ms(text, 0, len(text) - 1)
    whole_to_ms(1, UNIT_CODES["s"])
    real_to_ms(1.5, UNIT_CODES["s"])


def warm_beside() -> None:
    """Compile all that is not in the cache, at the lowest priority; say so where there is anything to compile."""
    os.nice(_NICE_MOST)
    texts: list[str] = []

    def say(text: str) -> None:
        texts.append(text)
        sys.stderr.write(text)

    CompileProgress(lambda: say("compiling the other kernels beside, at low priority\n"), lambda *_: None).watch()
    seconds = warm(**ALL)
    if texts:
        say(f"all kernels are compiled, after {seconds:.0f} s\n")


def main(arguments: Sequence[str]) -> None:
    """Compile all, or that of ``HALVES`` which is named; with ``--tied`` while the standard input has another end.

    ``--beside``: as ``warm_beside``.
    """
    with watched_lifeline() if "--tied" in arguments else nullcontext():
        if "--beside" in arguments:
            warm_beside()
            return
        half = next((each for each in arguments if each in HALVES), None)
        of, minutes = ("", "some two minutes") if half is None else (f": {half}", "a minute")
        sys.stderr.write(f"compiling kernels{of} ({minutes} the first time)\n")
        seconds = warm(**(ALL if half is None else HALVES[half]))
        sys.stderr.write(f"kernels ready after {seconds:.1f} s{of}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
