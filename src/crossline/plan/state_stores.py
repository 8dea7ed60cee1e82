"""State stores: the columns and retention of a key space, and the state store of each rule.

A *state store* keeps columns, filters and a retention of one key space. Rules share a state store. A later rule that
needs a column, a filter or a longer retention that no state store of its key space has gets a new state store, so that
the running rules keep theirs. The layout (all state stores) is a plain value: it is handed from
one compilation to the next and to every worker.

The values of a state store decide which records are recognized as duplicates. So they are stored with it, and never
derived again from the rules in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from crossline.basics.streams.schema import StreamSpec
from crossline.plan.spaces import (
    AggregateSpec,
    ComparisonPlan,
    FeatureQueryPlan,
    FormulaPlan,
    PanePart,
    WindowSpec,
    parts_of,
)
from crossline.programs.kinds import ColumnKind, TimeMode
from crossline.programs.program import ALWAYS, Emission, Feed, Figure, FormulaPredicate, Program, Window
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleVersion

if TYPE_CHECKING:
    from crossline.plan.pattern_spaces import AbsencePlan, SequencePlan


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """Which records enter a window.

    ``condition`` (canonical JSON, '' for none), a column that must be present, a bound on lateness (None: no bound).
    ``key_fields``: the key of the records, if it is not that of the state store.
    """

    condition: str
    column: str | None
    allowed_lateness_ms: int | None
    key_fields: tuple[str, ...] | None = None


RETIRED = FilterSpec("retired", None, None)


@dataclass(frozen=True, slots=True)
class StateStore:
    """The contents of one state store. ``name`` is never used again for another state store.

    ``retention_ms``: how far back from a record its windows reach. ``lateness_ms``: how far behind ingest time the
    clock of a record that enters may be (0 on the ingest clock). ``home``: a dedup store: it has no window and detects
    duplicates of the stream. ``resolution_ms``: it keeps panes of this length, of which each has ``parts``, and as
    records what may still come late and the last ``fresh_ms``; 0: all as records. ``ordered``: kept for patterns, not
    for windows. ``waits``: for absences. ``reevaluate``: a late record triggers a replay of its records.
    """

    name: str
    group_fields: tuple[str, ...]
    time_mode: TimeMode
    columns: tuple[tuple[str, ColumnKind], ...]
    filters: tuple[FilterSpec, ...]
    retention_ms: int
    lateness_ms: int
    home: bool = False
    resolution_ms: int = 0
    parts: tuple[PanePart, ...] = ()
    fresh_ms: int = 0
    ordered: bool = False
    waits: bool = False
    reevaluate: bool = False

    @property
    def known_ms(self) -> int:
        """As ``remembers_ms``, for a record that is to be found as such, and its id."""
        return (self.fresh_ms if self.resolution_ms else self.retention_ms) + self.lateness_ms

    @property
    def remembers_ms(self) -> int:
        """How far behind a record's ingest time the clock of an earlier one may be that it still finds."""
        return self.retention_ms + self.lateness_ms

    @property
    def namings(self) -> tuple[tuple[str, ...], ...]:
        """The fields of all keys that its records enter under, first its own."""
        others = (each.key_fields for each in self.filters if each.key_fields is not None)
        return tuple(dict.fromkeys((self.group_fields, *others)))

    def takes_all(self, spec: StreamSpec, allowed_lateness_ms: int) -> bool:
        """Whether every record of the stream enters that is no later than ``allowed_lateness_ms``."""
        bounds_ms = (each.allowed_lateness_ms or 0 for each in self._of_all(spec, "event_time"))
        return any(each >= allowed_lateness_ms for each in bounds_ms)

    def knows_copies(self, spec: StreamSpec, known_ms: int) -> bool:
        """Whether every record of the stream enters on the ingest clock, and is known for ``known_ms``."""
        return self.known_ms == known_ms and any(True for _ in self._of_all(spec, "processing_time"))

    def _of_all(self, spec: StreamSpec, time_mode: TimeMode) -> Iterator[FilterSpec]:
        """The filters on that clock that all records of the stream pass, except late ones."""
        keyed = len(self.namings) == 1 and all(not spec.columns[name].optional for name in self.group_fields)
        if keyed and self.time_mode == time_mode:
            yield from (each for each in self.filters if not each.condition and each.column is None)


@dataclass(frozen=True, slots=True)
class Layout:
    """The state stores in use, and how many were ever made: numbers above are free for names."""

    state_stores: tuple[StateStore, ...] = ()
    made: int = 0

    def of(self, stream: str) -> list[StateStore]:
        """The state stores of one stream."""
        return [state_store for state_store in self.state_stores if state_store.name.startswith(f"{stream}|")]


@dataclass(slots=True)
class Draft:
    """A state store being compiled: the programs that it serves, and what they become."""

    state_store: StateStore
    programs: list[Program] = field(default_factory=list)
    windows: dict[WindowSpec, int] = field(default_factory=dict)
    aggregates: dict[AggregateSpec, int] = field(default_factory=dict)
    lines: list[ComparisonPlan] = field(default_factory=list)
    formulas: list[FormulaPlan] = field(default_factory=list)
    patterns: list[SequencePlan] = field(default_factory=list)
    absences: list[AbsencePlan] = field(default_factory=list)
    feature_queries: list[FeatureQueryPlan] = field(default_factory=list)
    versions: dict[tuple[str, int], list[RuleVersion]] = field(default_factory=dict)  # by rule and version
    facts: dict[str, None] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)  # filters

    @property
    def idle(self) -> bool:
        """Whether nothing is judged on it."""
        return not (self.lines or self.formulas or self.patterns or self.absences or self.feature_queries)


Programmed = tuple[RuleVersion, Program]
_T = TypeVar("_T")


def assign(
    stream: str, spec: StreamSpec, windowed: Sequence[Programmed], layout: Layout, defaults: Defaults
) -> list[tuple[Draft, list[Programmed]]]:
    """Assigns each rule with windows to the first state store that can serve it, old stores first.

    The remaining rules of a key space share one new state store; on the ingest clock, one for each retention of ids.
    Old state stores without rules stay in the result, for the caller to drop.
    """
    served: list[tuple[Draft, list[Programmed]]] = [(Draft(state_store), []) for state_store in layout.of(stream)]
    fresh: dict[tuple[Any, ...], list[Programmed]] = {}
    for version, program in windowed:
        feed = program.feed
        home = next((mine for draft, mine in served if _serves(draft.state_store, program, spec, defaults)), None)
        if home is None:
            kept_ms = None
            if feed.time_mode == "processing_time":
                kept_ms = (fresh_of if program.resolution_ms else kept_of)(program, defaults)
            home = fresh.setdefault(
                (feed.time_mode, feed.key_fields, kept_ms, program.resolution_ms, _kind(program)), []
            )
        home.append((version, program))
    for number, ((mode, fields, *_), members) in enumerate(fresh.items(), layout.made):
        served.append((Draft(_new_state_store(stream, spec, mode, fields, number, members, defaults)), members))
    return served


def _new_state_store(
    stream: str,
    spec: StreamSpec,
    mode: TimeMode,
    fields: tuple[str, ...],
    number: int,
    members: list[Programmed],
    defaults: Defaults,
) -> StateStore:
    needs = [needs_of(program, spec) for _, program in members]
    filters = _unique(each for mine, _ in needs for each in mine)
    state_store = StateStore(
        name=f"{stream}|{mode}|{','.join(fields)}#{number}",
        group_fields=fields,
        time_mode=mode,
        columns=_unique(column for _, columns in needs for column in columns),
        filters=filters,
        retention_ms=max(kept_of(program, defaults) for _, program in members),
        lateness_ms=_lateness_of(filters),
        ordered=members[0][1].kind == "sequence",
        waits=members[0][1].kind == "absence",
        reevaluate=members[0][1].reevaluate,
    )
    resolution_ms = members[0][1].resolution_ms
    if not resolution_ms:
        return state_store
    return replace(
        state_store,
        resolution_ms=resolution_ms,
        parts=_unique(part for _, program in members for part in parts_for(state_store, program, spec)),
        fresh_ms=max(fresh_of(program, defaults) for _, program in members),
    )


def dedup_store(stream: str, spec: StreamSpec, number: int, allowed_lateness_ms: int) -> StateStore:
    """A state store that knows every record again for as long as it is not too late for every rule."""
    everything = FilterSpec("", None, allowed_lateness_ms)
    name = f"{stream}|event_time|{spec.id}#{number}"
    return StateStore(name, (spec.id,), "event_time", (), (everything,), 0, allowed_lateness_ms, home=True)


def copies_state_store(stream: str, fields: tuple[str, ...], number: int, known_ms: int) -> StateStore:
    """A store that knows every record again for so long on the ingest clock, however late; by the key of ``fields``."""
    everything = FilterSpec("", None, None)
    name = f"{stream}|processing_time|{','.join(fields)}#{number}"
    return StateStore(name, fields, "processing_time", (), (everything,), known_ms, 0, home=True)


def copies_known_ms(tables: Iterable[Program], defaults: Defaults) -> int:
    """How long a record is known on the ingest clock for rules that keep nothing, and for the detection of duplicates.

    Of ``tables`` of figures every row is reported, so that no copy may be new there which one of these knows.
    """
    on_ingest = [program for program in tables if program.feed.time_mode == "processing_time"]
    spans_ms = [(fresh_of if program.resolution_ms else kept_of)(program, defaults) for program in on_ingest]
    return max([_in_powers(defaults.allowed_lateness_ms), *spans_ms])


def kept_of(program: Program, defaults: Defaults) -> int:
    """How long a store keeps a record for this program.

    On event time a duplicate has the clock of the first record, so it is found, or is too late itself. On the ingest
    clock each copy has a clock of its own: how long ids are known is the window or cooldown and the pipeline's allowed
    lateness, rounded up to a power of two seconds, so that rules of nearly the same need share.
    """
    if program.feed.time_mode == "event_time" or program.resolution_ms:
        return program.reach_ms
    return _in_powers(program.reach_ms + defaults.allowed_lateness_ms)


def fresh_of(program: Program, defaults: Defaults) -> int:
    """How long a store of panes keeps a record as such for this program, besides what may still come late.

    For the windows among its figures that have no panes; on the ingest clock for its copies too, as in ``kept_of``.
    """
    exact_ms = max((each.window.reach_ms for each in program.figures if not each.window.resolution_ms), default=0)
    if program.feed.time_mode == "event_time":
        return exact_ms
    return _in_powers(exact_ms + defaults.allowed_lateness_ms)


def _in_powers(ms: int) -> int:
    """Rounded up to a power of two seconds."""
    seconds = -(-ms // 1000)
    return 1000 << max(0, (seconds - 1).bit_length())


def filter_of(feed: Feed, spec: StreamSpec, column: str | None = None) -> FilterSpec:
    """The filter of the records of ``feed`` that have ``column``; where all have it, the filter of the feed."""
    present = column if column is not None and spec.columns[column].optional else None
    return FilterSpec(feed.condition.canonical, present, feed.allowed_lateness_ms)


def step_filter(program: Program, feed: Feed, spec: StreamSpec) -> FilterSpec:
    """The filter of a feed of a sequence, which may have another key than the rest."""
    own = filter_of(feed, spec)
    return own if feed.key_fields == program.feed.key_fields else replace(own, key_fields=feed.key_fields)


def streak_filter(figure: Figure) -> FilterSpec:
    """The filter of the records of a streak."""
    meets = figure.streak_of.canonical if figure.streak_of is not None else ""
    return FilterSpec(meets, None, figure.feed.allowed_lateness_ms)


def needs_of(program: Program, spec: StreamSpec) -> tuple[tuple[FilterSpec, ...], tuple[tuple[str, ColumnKind], ...]]:
    """The filters and the columns of a program."""
    if program.verdict is not None and program.verdict.feeds:
        own = (program.feed,) if program.sequence is not None and program.sequence.strict else ()
        return _unique(step_filter(program, feed, spec) for feed in (*program.verdict.feeds, *own)), ()
    filters = [filter_of(each.feed, spec, each.column) for each in program.figures]
    if program.comparison is None:
        filters.insert(0, filter_of(program.feed, spec))
    filters += [streak_filter(each) for each in program.figures if each.streak_of is not None]
    kept = [(each.column, each.column_kind) for each in program.figures]
    return _unique(filters), _unique((column, kind) for column, kind in kept if column is not None and kind is not None)


def parts_for(state_store: StateStore, program: Program, spec: StreamSpec) -> tuple[PanePart, ...]:
    """The pane parts that ``state_store``, which has the program's filters and columns, must keep for it."""
    needed = []
    for figure in program.figures:
        column = -1
        if figure.streak_of is not None:
            column = state_store.filters.index(streak_filter(figure))
        elif figure.column is not None and figure.column_kind is not None:
            column = state_store.columns.index((figure.column, figure.column_kind))
        number = state_store.filters.index(filter_of(figure.feed, spec, figure.column))
        needed.append((number, AggregateSpec(0, column, figure.aggregate)))
    return parts_of(needed)


def _serves(state_store: StateStore, program: Program, spec: StreamSpec, defaults: Defaults) -> bool:
    filters, columns = needs_of(program, spec)
    kept_ms = kept_of(program, defaults)
    feed = program.feed
    on_event_time = feed.time_mode == "event_time"
    key, mine = (
        (feed.time_mode, feed.key_fields, program.resolution_ms),
        (state_store.time_mode, state_store.group_fields),
    )
    if (*mine, state_store.resolution_ms) != key or not set(filters) <= set(state_store.filters):
        return False
    kind = (state_store.ordered, state_store.waits, state_store.reevaluate)
    if not set(columns) <= set(state_store.columns) or kind != _kind(program):
        return False
    if not state_store.resolution_ms:
        return state_store.retention_ms >= kept_ms if on_event_time else state_store.retention_ms == kept_ms
    fresh_ms = fresh_of(program, defaults)
    return (
        state_store.retention_ms >= kept_ms
        and (state_store.fresh_ms >= fresh_ms if on_event_time else state_store.fresh_ms == fresh_ms)
        and set(parts_for(state_store, program, spec)) <= set(state_store.parts)
    )


def _kind(program: Program) -> tuple[bool, bool, bool]:
    """Whether its state store serves patterns, absences, and replays."""
    return program.kind == "sequence", program.kind == "absence", program.reevaluate


def without_idle(
    state_store: StateStore, used: set[int], programs: Collection[Program], defaults: Defaults
) -> StateStore:
    """``state_store`` without the filters and the retention that no predicate needs any more, for good.

    Their records would be incomplete by the time a rule needed them again.
    """
    filters = tuple(e if n in used else RETIRED for n, e in enumerate(state_store.filters))
    kept_ms = max(kept_of(program, defaults) for program in programs)
    fresh_ms = max(fresh_of(program, defaults) for program in programs) if state_store.resolution_ms else 0
    return replace(
        state_store, filters=filters, retention_ms=kept_ms, lateness_ms=_lateness_of(filters), fresh_ms=fresh_ms
    )


def kept_for(state_store: StateStore, corrected_ms: int) -> StateStore:
    """``state_store`` with a retention for retractions by records that are up to ``corrected_ms`` late."""
    return replace(state_store, lateness_ms=max(state_store.lateness_ms, corrected_ms)) if corrected_ms else state_store


def remembering(program: Program, spec: StreamSpec) -> Program:
    """``program``, where the record alone decides, as one over a figure that always holds, by the id of the record.

    So a hit that may be retracted is kept.
    """
    if program.verdict is not None:
        return program
    feed = replace(program.feed, key_fields=(spec.id,))
    figures = (Figure(feed, "count", Window(1)),)
    return replace(
        program, feed=feed, figures=figures, verdict=FormulaPredicate(("seen",), ALWAYS), emission=Emission()
    )


def _lateness_of(filters: Iterable[FilterSpec]) -> int:
    return max((e.allowed_lateness_ms for e in filters if e.allowed_lateness_ms is not None), default=0)


def _unique(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))
