"""The plan snapshot: rules, streams and lists for tasks, as one value that is serialized as JSON.

A static plan snapshot is part of the query. A hot one is a file that the driver replaces between batches; every task of
a batch reads the same one, since nothing changes it while the batch runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from crossline.basics.conditions.lists import Lists, list_from_json
from crossline.basics.errors import StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.shard import ShardState
from crossline.ingest.decode import RecordLayout as DecodeLayout
from crossline.ingest.decode import make_layout
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.io.files import state_files
from crossline.plan.compile import StreamPlan, layout_of
from crossline.plan.compose import compile_all
from crossline.plan.state_stores import Layout
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.layout import state_store_of

if TYPE_CHECKING:
    from crossline.ingest.enrich.join import Join
    from crossline.rules.policy.policy import Deciding

_ANEW = (
    "restore the checkpoint from a copy, or move it away: what the source still has is then judged again, and its "
    "alerts have the same ids"
)
_AGAIN = "move it away: what the tables hold is read again from their logs as the pipeline starts"


@dataclass(frozen=True, slots=True)
class Backfill:
    """Where the past of a state store lies that came while the pipeline ran: a folder with a log of so many slices."""

    folder: str
    slices: int


@dataclass(slots=True)
class PlanSnapshot:
    """Rules, streams, lists and layout; compiled once per process.

    ``tables``: their contents lie in files. ``backfills``: by state store. ``only``: judge by these state stores alone,
    to read their past; ``clocks``: where the streams' own clocks stood when reading starts. ``deciding``: None where
    nothing is decided. ``probing``: see ``compile_all``; it does not travel. ``feature_query``: records get
    feature rows, which leave with the outcome; the rules are those of ``figure_tables.feature_query``. ``depth_max``:
    the greatest depth that plans ever had (see ``StreamPlan``): the state of an unused depth gets no gap.
    """

    rules: RuleSet
    streams: dict[str, StreamSpec]
    defaults: Defaults
    shards: int
    bounds: Bounds
    lists: Lists = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    backfills: Mapping[str, Backfill] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    clocks: Mapping[str, int] = field(default_factory=dict)
    deciding: Deciding | None = None
    probing: int = 0
    feature_query: bool = False
    depth_max: int = 1
    _plans: dict[str, StreamPlan] | None = None
    _decoders: dict[str, DecodeLayout] = field(default_factory=dict)
    _joins: dict[str, tuple[Join, ...]] | None = None
    _earlier: dict[str, tuple[Join, ...]] | None = None  # of the snapshot before: what stands in both stays open

    def _compiled(self) -> dict[str, StreamPlan]:
        if self._plans is None:
            more: dict[str, Any] = {"probing": self.probing, "holding": self.deciding is not None}
            plans = compile_all(self.rules, self.streams, self.defaults, self.layout, **more)
            if self.only:
                chosen = {name: self._chosen(plan) for name, plan in plans.items()}
                plans = {name: plan for name, plan in chosen.items() if plan.reports or plan.state_stores}
            self._plans = plans
        return self._plans

    def _chosen(self, plan: StreamPlan) -> StreamPlan:
        state_stores = tuple(lp for lp in plan.state_stores if lp.state_store.name in self.only)
        return replace(plan, state_stores=state_stores, accounting_store=0, copies=None, stateless=())

    def decoder(self, stream: str) -> DecodeLayout:
        """How records of one stream are decoded."""
        if stream not in self._decoders:
            spec = self.streams[stream]
            if spec.sensitive:
                from crossline.io.tokens.opening import decoder_of  # noqa: PLC0415 - most streams have no tokens

                self._decoders[stream] = decoder_of(stream, spec)
            else:
                self._decoders[stream] = make_layout(stream, spec)
        return self._decoders[stream]

    def joins(self, stream: str) -> tuple[Join, ...]:
        """The tables that rules of one stream read, opened once."""
        from crossline.runtime.snapshot.tables import join_of  # noqa: PLC0415 - most rules read none

        if self._joins is None:
            self._joins = {}
        if stream not in self._joins:
            names = self.plan(stream).tables
            self._joins[stream] = tuple(join_of(name, self.streams[stream], stream, self.tables) for name in names)
        return self._joins[stream]

    def plan(self, stream: str) -> StreamPlan:
        """The plan of one stream."""
        return self._compiled()[stream]

    def plans(self) -> Sequence[StreamPlan]:
        """The plans of all streams."""
        return list(self._compiled().values())

    def plans_at(self, depth: int) -> Sequence[StreamPlan]:
        """The plans of one depth: 1 for streams, more for hits."""
        return [plan for plan in self.plans() if plan.depth == depth]

    @property
    def revises_ms(self) -> int | None:
        """How late a record may be that revises decisions; None without decisions, or without retraction."""
        again = [
            lp.state_store.lateness_ms for plan in self.plans() for lp in plan.state_stores if lp.state_store.reevaluate
        ]
        return max(again) if again and self.deciding is not None else None

    @property
    def judging(self) -> Bounds:
        """The bounds for judging shards. With a policy, they also request the rules that hold at each record."""
        return replace(self.bounds, decides=self.deciding is not None)

    def kept_at(self, depth: int) -> Sequence[StreamPlan]:
        """The plans that keep the states of a depth; depth 0: the inputs of decisions on records."""
        if depth:
            return self.plans()
        from crossline.evaluate.decision_memory import deciding_plan  # noqa: PLC0415 - where there is a policy

        of_records = [plan for plan in self.plans() if not plan.of_hits and plan.clock is None]
        return [deciding_plan(plan, self.revises_ms or 0) for plan in of_records]

    @property
    def depth(self) -> int:
        """The number of judging stages of a batch."""
        return max([self.depth_max, *(plan.depth for plan in self.plans())])

    def stream_join(self) -> frozenset[str]:
        """The streams whose records meet in plans, where there are several."""
        bases = [{*plan.met.bases.values()} for plan in self.plans() if plan.met is not None]
        return frozenset().union(*(each for each in bases if len(each) > 1))

    def new_state(self) -> ShardState:
        """A shard that has seen nothing."""
        # A stream whose ingest times are made from its records is one log, by its own name.
        logs = {stream: {stream: ms} for stream, ms in self.clocks.items()}
        met = {plan.stream: plan.met for plan in self.plans() if plan.met is not None} if logs else {}
        for name, each in met.items():
            read = {each.log(part, source, source): self.clocks.get(source) for part, source, _ in each.parts}
            logs[name] = {log: ms for log, ms in read.items() if ms is not None}
        return ShardState(log_clock={name: clocks for name, clocks in logs.items() if clocks})

    def begun(self, rules: RuleSet, lists: Lists, tables: Tables | None = None) -> PlanSnapshot:
        """The first plan snapshot that is judged by: its state stores are those that ``rules`` need."""
        return replace(self, rules=rules, lists=lists, tables=tables or {}, _plans=None, _joins=None)

    def with_rules(self, rules: RuleSet, lists: Lists) -> PlanSnapshot:
        """The plan snapshot after rules or lists changed: state stores in use are kept, so that their stores go on."""
        return self.after(self, rules, lists, self.tables)

    def after(self, before: PlanSnapshot, rules: RuleSet, lists: Lists, tables: Tables | None = None) -> PlanSnapshot:
        """This snapshot's streams, defaults and bounds, going on from the stores of ``before`` as it compiled them."""
        return replace(
            self,
            rules=rules,
            lists=lists,
            tables=tables or {},
            layout=before.layout_after(),
            backfills=before.backfills,
            depth_max=before.depth,
            _plans=None,
            _joins=None,
        )

    def with_tables(self, tables: Tables, last: PlanSnapshot | None = None) -> PlanSnapshot:
        """The plan snapshot with other contents of tables, and all that was compiled: rules do not rest on them.

        ``last``: the plan snapshot that this process used until now, where it is another.
        """
        return replace(self, tables=tables, _joins=None, _earlier=(last or self).opened())

    def opened(self) -> dict[str, tuple[Join, ...]] | None:
        """The joins that this process opened last."""
        return self._joins or self._earlier

    def with_backfills(self, found: Mapping[str, Backfill]) -> PlanSnapshot:
        """The snapshot with what was ``found`` of new stores' backfills; those of stores that are gone are left out."""
        state_stores = {lp.state_store.name for plan in self.plans() for lp in plan.state_stores}
        backfills = {name: backfill for name, backfill in {**self.backfills, **found}.items() if name in state_stores}
        return replace(self, backfills=backfills, _plans=self._plans, _decoders=self._decoders)

    def layout_after(self) -> Layout:
        """The state stores that this plan snapshot's rules use: those that the next plan snapshot goes on with."""
        return layout_of(self.plans(), self.layout)

    def to_json(self) -> bytes:
        """As JSON, to be read by ``snapshot_from_json``."""
        return orjson.dumps(
            {
                "format": FORMAT,
                "rules": orjson.Fragment(self.rules.to_json()),
                "streams": {name: spec.model_dump(mode="json", by_alias=True) for name, spec in self.streams.items()},
                "defaults": self.defaults,
                "shards": self.shards,
                "partition_lag_ms": self.bounds.partition_lag_ms,
                "aligned": self.bounds.aligned,
                "lists": {name: each.to_json() for name, each in self.lists.items()},
                "tables": self.tables,
                "layout": self.layout,
                "backfills": self.backfills,
                "only": self.only,
                "clocks": self.clocks,
                "deciding": self.deciding.to_json() if self.deciding else None,
                "levels": self.depth_max,
                "feature_query": self.feature_query,
            }
        )


def read_snapshot(path: Path, raw: bytes | None = None) -> PlanSnapshot:
    """The snapshot in ``path``, or in its bytes ``raw``. Raises StateError where it is damaged or of another format."""
    return state_files.read(path, path.read_bytes() if raw is None else raw, snapshot_from_json, _ANEW)


def other_format(found: int) -> StateError:
    """The text of a checkpoint whose snapshot has format ``found``."""
    return StateError(
        f"the checkpoint has a plan snapshot of format {found}; this crossline reads {FORMAT}. Go on with the version "
        "that wrote it, or move the checkpoint away: what the source still has is then judged again, and its alerts "
        "have the same ids"
    )


def _deciding_of(given: dict[str, Any]) -> Deciding:
    from crossline.rules.policy.policy import Deciding  # noqa: PLC0415 - where there is a policy

    return Deciding.from_json(given)


def _rules_of(given: Any, *, feature_query: bool) -> RuleSet:
    raw = orjson.dumps(given)
    if not feature_query:
        return RuleSet.from_json(raw)
    from crossline.rules.figure_tables import read_feature_query  # noqa: PLC0415 - few plans are

    return RuleSet.from_json(raw, read_feature_query)


def snapshot_from_json(raw: bytes) -> PlanSnapshot:
    """Inverse of ``PlanSnapshot.to_json``. Raises StateError for a plan snapshot of another format."""
    data = orjson.loads(raw)
    if data.get("format") != FORMAT:
        raise other_format(data.get("format", 1))
    return PlanSnapshot(
        rules=_rules_of(data["rules"], feature_query=data.get("feature_query", False)),
        streams={name: StreamSpec.model_validate(spec) for name, spec in data["streams"].items()},
        defaults=Defaults(**data["defaults"]),
        shards=data["shards"],
        bounds=Bounds(data["partition_lag_ms"], tuple(data.get("aligned", ()))),
        lists={name: list_from_json(each) for name, each in data["lists"].items()},
        tables=_tables_of(data.get("tables", {})),
        layout=Layout(tuple(state_store_of(item) for item in data["layout"]["state_stores"]), data["layout"]["made"]),
        backfills={name: Backfill(**backfill) for name, backfill in data["backfills"].items()},
        only=tuple(data["only"]),
        clocks=data["clocks"],
        deciding=_deciding_of(data["deciding"]) if data.get("deciding") else None,
        depth_max=data.get("levels", 1),
        feature_query=data.get("feature_query", False),
    )


def _tables_of(data: Mapping[str, Any]) -> Tables:
    return {name: tuple(TableVersion(**version) for version in each) for name, each in data.items()}


def _parse_tables(raw: bytes) -> dict[str, Any]:
    body = orjson.loads(raw)
    return {"of": tuple(body["of"]), "tables": _tables_of(body["tables"])}


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino


class SnapshotSource(Protocol):
    """Where a task finds the plan snapshot."""

    def current(self) -> PlanSnapshot:
        """The plan snapshot as of now."""
        ...


FORMAT = 4  # of the plan snapshot, and of what the state beside it means

STATIC_MAX = 16  # plan snapshots that came with queries, which a process remembers

# Per worker process: what was read last, so that a batch does not compile rules again.
_READ: dict[str, tuple[tuple[int, int], PlanSnapshot]] = {}


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A plan snapshot of this very process."""

    snapshot: PlanSnapshot

    def current(self) -> PlanSnapshot:
        """The plan snapshot."""
        return self.snapshot


@dataclass(frozen=True, slots=True)
class StaticSnapshot:
    """A plan snapshot that travels with the query."""

    raw: bytes

    def current(self) -> PlanSnapshot:
        """The plan snapshot, read once per process."""
        key = f"static:{hash(self.raw)}"
        if key not in _READ:
            old = [each for each in _READ if each.startswith("static:")]
            for each in old[: len(old) - STATIC_MAX + 1]:
                del _READ[each]
            _READ[key] = ((0, 0), snapshot_from_json(self.raw))
        return _READ[key][1]


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A plan snapshot in a file that every worker can read; replaced whole by the driver between batches."""

    path: str

    def current(self) -> PlanSnapshot:
        """The plan snapshot, read again where the file was replaced."""
        stamp = _stamp(Path(self.path))
        known = _READ.get(self.path)
        if known is None or known[0] != stamp:
            _READ[self.path] = known = (stamp, read_snapshot(Path(self.path)))
            _READ.pop(str(self._tables), None)
        return self._with_tables(stamp, known[1])

    @property
    def _tables(self) -> Path:
        return Path(self.path).with_suffix(".tables.json")

    def _with_tables(self, stamp: tuple[int, int], snapshot: PlanSnapshot) -> PlanSnapshot:
        """``snapshot``, which has that stamp, with the contents of tables that it was given since."""
        try:
            mine = _stamp(self._tables)
            known = _READ.get(str(self._tables))
            if known is None or known[0] != mine:
                body = state_files.read(self._tables, self._tables.read_bytes(), _parse_tables, _AGAIN)
                given = body["of"] == stamp
                last = None if known is None else known[1]
                known = (mine, snapshot.with_tables(body["tables"], last) if given else snapshot)
                _READ[str(self._tables)] = known
        except FileNotFoundError:
            return snapshot
        return known[1]

    def replace_tables(self, snapshot: PlanSnapshot) -> None:
        """Make ``snapshot`` the current one, which differs from it in nothing but its tables.

        That may be so each second, and a plan snapshot of a thousand rules takes long to read and to compile.
        """
        body = {"of": _stamp(Path(self.path)), "tables": snapshot.tables}
        state_files.put(self._tables, orjson.dumps(body))

    def replace(self, snapshot: PlanSnapshot) -> None:
        """Make ``snapshot`` the current one, atomically."""
        state_files.put(Path(self.path), snapshot.to_json())
