"""The state of a run in one process as one blob: what each batch added, and by which plan.

The form of what a batch added is that of the pipeline's state log, so it is read back by the same code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from crossline.basics import wire
from crossline.basics.errors import StateError
from crossline.evaluate.shard import ShardState
from crossline.evaluate.state_log import apply_delta, expired
from crossline.plan.compile import layout_of
from crossline.plan.state_stores import Layout
from crossline.runtime.snapshot.snapshot import PlanSnapshot

FORMAT = 1
TRIM_EVERY = 32  # segments of a depth between two looks at which of them no window needs any more


@dataclass(slots=True)
class Segments:
    """What batches added to the states, by depth: the oldest first, without those that no window needs."""

    by_depth: dict[int, list[bytes]] = field(default_factory=dict)
    _added: int = 0

    def add(self, depth: int, segment: bytes) -> None:
        """Keep what a batch added."""
        self.by_depth.setdefault(depth, []).append(segment)
        self._added += 1

    def trim(self, snapshot: PlanSnapshot, states: Mapping[int, ShardState]) -> None:
        """Drop the oldest that are in no window of a record still to come; the last one has the clocks, and stays."""
        if self._added < TRIM_EVERY:
            return
        self._added = 0
        for depth, segments in self.by_depth.items():
            plans, gone = snapshot.kept_at(depth), 0
            while gone < len(segments) - 1:
                meta, _ = wire.decode(segments[gone], "a segment in memory")
                if not expired(plans, states[depth], [meta], snapshot.bounds):
                    break
                gone += 1
            del segments[:gone]

    def states(self, snapshot: PlanSnapshot) -> dict[int, ShardState]:
        """The states that they make, by depth."""
        found = {}
        for depth, segments in self.by_depth.items():
            state = found[depth] = snapshot.new_state()
            for segment in segments:
                meta, arrays = wire.decode(segment, "a segment")
                apply_delta(snapshot.kept_at(depth), state, meta, arrays, snapshot.bounds)
        return found


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run that was saved: its segments, how many batches and rows it had, its plan and the version that wrote it."""

    segments: Segments
    batch: int
    rows: int
    plan: Mapping[str, Any]
    version: str

    def encode(self) -> bytes:
        """As one blob."""
        meta = {
            "detector": FORMAT,
            "version": self.version,
            "plan": self.plan,
            "batch": self.batch,
            "rows": self.rows,
            "levels": {str(depth): len(each) for depth, each in self.segments.by_depth.items()},
        }
        arrays = {
            f"{depth}.{number}": np.frombuffer(segment, np.uint8)
            for depth, segments in self.segments.by_depth.items()
            for number, segment in enumerate(segments)
        }
        return wire.encode(meta, arrays)


def read_saved_run(raw: bytes, where: str) -> SavedRun:
    """Inverse of ``SavedRun.encode``. Raises StateError where it is damaged, of another format, or no such file."""
    meta, arrays = wire.decode(raw, where)
    if meta.get("detector") != FORMAT:
        found = f"format {meta['detector']}" if "detector" in meta else "a file of another kind"
        raise StateError(
            f"{where}: found {found}, expected a saved detector of format {FORMAT}; load it with the version of "
            "crossline that wrote it, or feed a new detector the records of its windows"
        )
    by_depth = {
        int(depth): [arrays[f"{depth}.{number}"].tobytes() for number in range(count)]
        for depth, count in meta["levels"].items()
    }
    return SavedRun(Segments(by_depth), meta["batch"], meta["rows"], meta["plan"], meta["version"])


def plan_of(snapshot: PlanSnapshot) -> dict[str, Any]:
    """By what ``snapshot`` judges, as digests that can be compared, with the rule versions by name.

    ``layout``: how its state is laid out, which may differ between versions of crossline.
    """
    body = orjson.loads(snapshot.to_json())
    rules = [(each.rule, each.kind) for each in snapshot.rules.versions]
    return {
        "rules": {f"{rule.rule_id}@{rule.version}": f"{rule.body_digest()} {kind}" for rule, kind in rules},
        "periods": _digest(body["rules"]),
        **{name: _digest(body[name]) for name in ("streams", "defaults", "partition_lag_ms", "lists", "deciding")},
        "layout": _digest(orjson.loads(orjson.dumps(layout_of(snapshot.plans(), Layout())))),
    }


_WORDS = {
    "periods": "periods, shares or releases of rules",
    "streams": "the stream",
    "defaults": "the defaults",
    "partition_lag_ms": "partition_lag_ms",
    "lists": "the lists",
    "deciding": "the policy",
    "layout": "the layout of the state",
}


def check_plan(saved: SavedRun, plan: Mapping[str, Any], where: str) -> None:
    """Whether ``saved`` is of this ``plan``. Raises StateError that names what differs."""
    theirs, mine = saved.plan["rules"], plan["rules"]
    differs = []
    if theirs != mine:
        names = sorted(name for name in {*theirs, *mine} if theirs.get(name) != mine.get(name))
        differs.append("rules " + ", ".join(f"{name} ({_side(name, theirs, mine)})" for name in names))
    elif saved.plan != plan:
        differs += [words for name, words in _WORDS.items() if saved.plan.get(name) != plan[name]]
    if differs:
        raise StateError(
            f"{where} was saved by another plan (crossline {saved.version}); found differences in "
            f"{'; '.join(differs)}. Load it with the rules, stream, lists and policy that it was saved with, or feed a "
            "new detector the records of its windows"
        )


def _side(name: str, theirs: Mapping[str, str], mine: Mapping[str, str]) -> str:
    if name not in mine:
        return "only in the file"
    return "only here" if name not in theirs else "another body or status"


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]
