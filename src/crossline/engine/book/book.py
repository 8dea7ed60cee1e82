"""The book: all that tasks need to know of rules, streams and lists, as one value that travels as JSON.

A static book is part of the query. A hot one is a file that the driver replaces between batches; every task of a
batch reads the same one, since nothing changes it while the batch runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import orjson

from crossline.connectors.files import noted
from crossline.core.basics.errors import StateError
from crossline.core.conditions.lists import Lists, list_from_json
from crossline.core.decide.policy import Deciding
from crossline.core.decode import RecordLayout as DecodeLayout
from crossline.core.decode import make_layout
from crossline.core.enrich.join import Join
from crossline.core.enrich.versions import Tables, TableVersion
from crossline.core.judge.decided import deciding_plan
from crossline.core.judge.shard import Bounds, ShardState
from crossline.core.plan.compile import StreamPlan, layout_of
from crossline.core.plan.compose import compile_all
from crossline.core.plan.layers import EntrySpec, Layer, Layout
from crossline.core.plan.spaces import PanePart
from crossline.core.rules.base import Defaults
from crossline.core.rules.reading import read_rule
from crossline.core.rules.ruleset import RuleSet
from crossline.core.rules.shared import read_telling
from crossline.core.streams.schema import StreamSpec
from crossline.engine.book.tables import join_of

_ANEW = (
    "restore the checkpoint from a copy, or move it away: what the source still has is then judged again, and its "
    "alerts have the same ids"
)
_AGAIN = "move it away: what the tables hold is read again from their logs as the pipeline starts"


@dataclass(frozen=True, slots=True)
class Past:
    """Where the past of a layer lies that came while the pipeline ran: a folder with a log of so many slices."""

    folder: str
    slices: int


@dataclass(slots=True)
class Book:
    """Rules, streams, lists and layout; compiled once per process.

    ``tables``: their contents lie in files. ``pasts``: by layer. ``only``: judge by these layers alone, to read their
    past; ``clocks``: where the streams' own clocks stood when reading starts. ``deciding``: None where nothing is
    decided. ``probing``: see ``compile_all``; it does not travel. ``telling``: what is told of records leaves with the
    outcome, and the rules are those of ``core.rules.shared.telling``. ``levels``: how many levels of plans there ever
    were (see ``StreamPlan``): the state of one that nothing needs for a while has no gap.
    """

    rules: RuleSet
    streams: dict[str, StreamSpec]
    defaults: Defaults
    shards: int
    bounds: Bounds
    lists: Lists = field(default_factory=dict)
    tables: Tables = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    pasts: Mapping[str, Past] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    clocks: Mapping[str, int] = field(default_factory=dict)
    deciding: Deciding | None = None
    probing: int = 0
    telling: bool = False
    levels: int = 1
    _plans: dict[str, StreamPlan] | None = None
    _decoders: dict[str, DecodeLayout] = field(default_factory=dict)
    _joins: dict[str, tuple[Join, ...]] | None = None
    # Those of the book before: what stands in both stays open.
    _earlier: dict[str, tuple[Join, ...]] | None = None

    def _compiled(self) -> dict[str, StreamPlan]:
        if self._plans is None:
            more: dict[str, Any] = {"probing": self.probing, "holding": self.deciding is not None}
            plans = compile_all(self.rules, self.streams, self.defaults, self.layout, **more)
            if self.only:
                chosen = {name: self._chosen(plan) for name, plan in plans.items()}
                plans = {name: plan for name, plan in chosen.items() if plan.reports or plan.layers}
            self._plans = plans
        return self._plans

    def _chosen(self, plan: StreamPlan) -> StreamPlan:
        layers = tuple(lp for lp in plan.layers if lp.layer.name in self.only)
        return replace(plan, layers=layers, reporter=0, copies=None, stateless=())

    def decoder(self, stream: str) -> DecodeLayout:
        """How records of one stream are decoded."""
        if stream not in self._decoders:
            self._decoders[stream] = make_layout(stream, self.streams[stream])
        return self._decoders[stream]

    def joins(self, stream: str) -> tuple[Join, ...]:
        """The tables that rules of one stream read, opened once."""
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

    def plans_at(self, level: int) -> Sequence[StreamPlan]:
        """Those that are judged at one level: 1 those of streams, above it those of hits."""
        return [plan for plan in self.plans() if plan.level == level]

    @property
    def revises_ms(self) -> int | None:
        """How late a record may be that revises decisions; None where nothing is decided, or judged again."""
        again = [lp.layer.lateness_ms for plan in self.plans() for lp in plan.layers if lp.layer.reevaluate]
        return max(again) if again and self.deciding is not None else None

    @property
    def judging(self) -> Bounds:
        """What shards are judged by: what holds at a record is asked for where there is a policy."""
        return replace(self.bounds, decides=self.deciding is not None)

    def kept_at(self, level: int) -> Sequence[StreamPlan]:
        """What the states of a level are kept by; level 0: what is known of records that were decided about."""
        if level:
            return self.plans()
        return [
            deciding_plan(plan, self.revises_ms or 0)
            for plan in self.plans()
            if not plan.of_hits and plan.clock is None
        ]

    @property
    def depth(self) -> int:
        """How many levels a batch is judged at."""
        return max([self.levels, *(plan.level for plan in self.plans())])

    def meeting(self) -> frozenset[str]:
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

    def begun(self, rules: RuleSet, lists: Lists, tables: Tables | None = None) -> Book:
        """The first book that is judged by: its layers are those that ``rules`` need."""
        return replace(self, rules=rules, lists=lists, tables=tables or {}, _plans=None, _joins=None)

    def with_rules(self, rules: RuleSet, lists: Lists) -> Book:
        """The book after rules or lists changed: layers in use are kept, so that their stores go on."""
        return self.after(self, rules, lists, self.tables)

    def after(self, before: Book, rules: RuleSet, lists: Lists, tables: Tables | None = None) -> Book:
        """This book's streams, defaults and bounds, going on from the layers of ``before`` as it compiled them."""
        return replace(
            self,
            rules=rules,
            lists=lists,
            tables=tables or {},
            layout=before.layout_after(),
            pasts=before.pasts,
            levels=before.depth,
            _plans=None,
            _joins=None,
        )

    def with_tables(self, tables: Tables, last: Book | None = None) -> Book:
        """The book with other contents of tables, and all that was compiled: rules do not rest on them.

        ``last``: the book that this process used until now, where it is another.
        """
        return replace(self, tables=tables, _joins=None, _earlier=(last or self).opened())

    def opened(self) -> dict[str, tuple[Join, ...]] | None:
        """The joins that this process opened last."""
        return self._joins or self._earlier

    def with_pasts(self, found: Mapping[str, Past]) -> Book:
        """The book with what was ``found`` of new layers' pasts; those of layers that are gone are left out."""
        layers = {lp.layer.name for plan in self.plans() for lp in plan.layers}
        pasts = {name: past for name, past in {**self.pasts, **found}.items() if name in layers}
        return replace(self, pasts=pasts, _plans=self._plans, _decoders=self._decoders)

    def layout_after(self) -> Layout:
        """The layers that this book's rules use: those that the next book goes on with."""
        return layout_of(self.plans(), self.layout)

    def to_json(self) -> bytes:
        """As JSON, to be read by ``book_from_json``."""
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
                "pasts": self.pasts,
                "only": self.only,
                "clocks": self.clocks,
                "deciding": self.deciding.to_json() if self.deciding else None,
                "levels": self.levels,
                "telling": self.telling,
            }
        )


def read_book(path: Path, raw: bytes | None = None) -> Book:
    """The book in ``path``, or in its bytes ``raw``. Raises StateError where it is damaged or of another format."""
    return noted.read(path, path.read_bytes() if raw is None else raw, book_from_json, _ANEW)


def book_from_json(raw: bytes) -> Book:
    """Inverse of ``Book.to_json``. Raises StateError for a book of another format."""
    data = orjson.loads(raw)
    if data.get("format") != FORMAT:
        raise StateError(
            f"the checkpoint has a book of format {data.get('format', 1)}; this crossline reads {FORMAT}. Go on with "
            "the version that wrote it, or move the checkpoint away: what the source still has is then judged again, "
            "and its alerts have the same ids"
        )
    return Book(
        rules=RuleSet.from_json(orjson.dumps(data["rules"]), read_telling if data.get("telling") else read_rule),
        streams={name: StreamSpec.model_validate(spec) for name, spec in data["streams"].items()},
        defaults=Defaults(**data["defaults"]),
        shards=data["shards"],
        bounds=Bounds(data["partition_lag_ms"], tuple(data.get("aligned", ()))),
        lists={name: list_from_json(each) for name, each in data["lists"].items()},
        tables=_tables_of(data.get("tables", {})),
        layout=Layout(tuple(_layer(item) for item in data["layout"]["layers"]), data["layout"]["made"]),
        pasts={name: Past(**past) for name, past in data["pasts"].items()},
        only=tuple(data["only"]),
        clocks=data["clocks"],
        deciding=Deciding.from_json(data["deciding"]) if data.get("deciding") else None,
        levels=data.get("levels", 1),
        telling=data.get("telling", False),
    )


def _tables_of(data: Mapping[str, Any]) -> Tables:
    return {name: tuple(TableVersion(**version) for version in each) for name, each in data.items()}


def _tables_said(raw: bytes) -> dict[str, Any]:
    said = orjson.loads(raw)
    return {"of": tuple(said["of"]), "tables": _tables_of(said["tables"])}


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino


def _layer(item: dict[str, Any]) -> Layer:
    return Layer(
        name=item["name"],
        group_fields=tuple(item["group_fields"]),
        time_mode=item["time_mode"],
        columns=tuple((name, kind) for name, kind in item["columns"]),
        entries=tuple(_entry(entry) for entry in item["entries"]),
        retention_ms=item["retention_ms"],
        lateness_ms=item["lateness_ms"],
        home=item["home"],
        resolution_ms=item.get("resolution_ms", 0),
        parts=tuple(PanePart(**part) for part in item.get("parts", ())),
        fresh_ms=item.get("fresh_ms", 0),
        ordered=item.get("ordered", False),
        waits=item.get("waits", False),
        reevaluate=item.get("reevaluate", False),
    )


def _entry(item: dict[str, Any]) -> EntrySpec:
    key_fields = item.get("key_fields")
    return EntrySpec(**{**item, "key_fields": None if key_fields is None else tuple(key_fields)})


class BookSource(Protocol):
    """Where a task finds the book."""

    def current(self) -> Book:
        """The book as of now."""
        ...


FORMAT = 3  # of the book, and of what the state beside it means

STATIC_MAX = 16  # books that came with queries, which a process remembers

# Per worker process: what was read last, so that a batch does not compile rules again.
_READ: dict[str, tuple[tuple[int, int], Book]] = {}


@dataclass(frozen=True, slots=True)
class HeldBook:
    """A book of this very process."""

    book: Book

    def current(self) -> Book:
        """The book."""
        return self.book


@dataclass(frozen=True, slots=True)
class StaticBook:
    """A book that travels with the query."""

    raw: bytes

    def current(self) -> Book:
        """The book, read once per process."""
        key = f"static:{hash(self.raw)}"
        if key not in _READ:
            old = [each for each in _READ if each.startswith("static:")]
            for each in old[: len(old) - STATIC_MAX + 1]:
                del _READ[each]
            _READ[key] = ((0, 0), book_from_json(self.raw))
        return _READ[key][1]


@dataclass(frozen=True, slots=True)
class BookFile:
    """A book in a file that every worker can read; replaced whole by the driver between batches."""

    path: str

    def current(self) -> Book:
        """The book, read again where the file was replaced."""
        stamp = _stamp(Path(self.path))
        known = _READ.get(self.path)
        if known is None or known[0] != stamp:
            _READ[self.path] = known = (stamp, read_book(Path(self.path)))
            _READ.pop(str(self._tables), None)
        return self._with_tables(stamp, known[1])

    @property
    def _tables(self) -> Path:
        return Path(self.path).with_suffix(".tables.json")

    def _with_tables(self, stamp: tuple[int, int], book: Book) -> Book:
        """``book``, which has that stamp, with the contents of tables that it was given since."""
        try:
            mine = _stamp(self._tables)
            known = _READ.get(str(self._tables))
            if known is None or known[0] != mine:
                said = noted.read(self._tables, self._tables.read_bytes(), _tables_said, _AGAIN)
                given = said["of"] == stamp
                last = None if known is None else known[1]
                known = (mine, book.with_tables(said["tables"], last) if given else book)
                _READ[str(self._tables)] = known
        except FileNotFoundError:
            return book
        return known[1]

    def replace_tables(self, book: Book) -> None:
        """Make ``book`` the current one, which differs from it in nothing but its tables.

        That may be so each second, and a book of a thousand rules takes long to read and to compile.
        """
        said = {"of": _stamp(Path(self.path)), "tables": book.tables}
        noted.put(self._tables, orjson.dumps(said))

    def replace(self, book: Book) -> None:
        """Make ``book`` the current one, atomically."""
        noted.put(Path(self.path), book.to_json())
