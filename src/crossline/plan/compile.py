"""Compiles rule versions to a stream plan: the key spaces of records, and their state stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from crossline.basics.conditions.condition import Conditions
from crossline.basics.streams.clocks import EVENT, clock_spec
from crossline.basics.streams.schema import StreamSpec
from crossline.plan.lateness import LatenessInForce, lateness_of
from crossline.plan.spaces import (
    ComparisonPlan,
    CrossKeyInput,
    FeatureQueryPlan,
    FormulaPlan,
    KeySpacePlan,
    PaneSpacePlan,
    WindowPlan,
)
from crossline.plan.state_stores import (
    Draft,
    Layout,
    StateStore,
    assign,
    copies_known_ms,
    copies_state_store,
    dedup_store,
    kept_for,
    remembering,
    without_idle,
)
from crossline.plan.stream_join import StreamJoin, came_log, joined_log_of, read_came, wide_spec
from crossline.plan.window_plans import comparison_of, feature_query_of, filter_of_step, formula_of
from crossline.programs.alert_fields import carried_record
from crossline.programs.program import Program
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet, RuleVersion

if TYPE_CHECKING:
    from crossline.plan.pattern_spaces import AbsencePlan, AbsenceSpacePlan, PatternSpacePlan, SequencePlan


@dataclass(frozen=True, slots=True)
class StorePlan:
    """A state store, and the plan of the predicates judged on it.

    ``versions[i]`` is the rule version of predicate i of ``plan.judging``, once for each span of time in which it is in
    force. ``facts``: the fields that formulas read, that feature rows have, and that hits carry for other rules.
    """

    state_store: StateStore
    plan: WindowPlan | PatternSpacePlan | AbsenceSpacePlan
    versions: tuple[tuple[RuleVersion, ...], ...]
    facts: tuple[str, ...] = ()

    @property
    def cross_key_inputs(self) -> tuple[CrossKeyInput, ...]:
        """Figures of other keys that its formulas read."""
        return tuple(each for line in self.plan.formulas for each in line.cross_key_inputs)


@dataclass(frozen=True, slots=True)
class Stateless:
    """A rule judged at the record alone.

    ``scored_after_ms``: lateness beyond which its hits are for risk scores alone; None: there are no such hits.
    ``key_fields``: of the key of its alerts.
    """

    version: RuleVersion
    condition: str
    judge_lateness_ms: int | None
    shown_fields: tuple[str, ...]
    scored_after_ms: int | None = None
    key_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Everything that routing and the shards need for one stream.

    ``conditions``: canonical JSON -> compiled condition. ``accounting_store``: number of the state store that reports
    duplicates and late records and judges the stateless rules. ``copies``: the number of the state store that finds
    duplicates on the ingest clock; None where no rule is on that clock. ``programs``: by rule id and version.
    ``tables``: those whose fields some rule reads.

    Of the hits of a rule, ``base`` is the stream whose records were hit, and ``depth`` one more than that of what the
    rule reads (1: a stream). ``carried``: by rule, the fields that its hits carry, since other rules read them.
    ``corrected``: whether its records may be retracted (hits of a rule with ``reevaluate``). ``met``: the stream join;
    None for one source. ``order``: the order of streams among records of one ingest time. ``mixed``: whether causes of
    its corrections come from several streams. ``clock``: the time field that its rules use; None: event time. Its
    records are reported in the stream's own plan, whose ``clocks`` have the bounds of the rules on each other clock.
    """

    stream: str
    spec: StreamSpec
    state_stores: tuple[StorePlan, ...]
    stateless: tuple[Stateless, ...]
    conditions: Conditions
    accounting_store: int
    lateness: LatenessInForce
    programs: dict[tuple[str, int], Program]
    base: str
    depth: int = 1
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    corrected: bool = False
    tables: tuple[str, ...] = ()
    met: StreamJoin | None = None
    order: tuple[str, ...] = ()
    mixed: bool = False
    clock: str | None = None
    clocks: Mapping[str, LatenessInForce] = field(default_factory=dict)
    copies: int | None = None

    def origin(self, log: str) -> tuple[str, str]:
        """The stream that a ``log`` of its rows is of in the end, and what it is called there."""
        return joined_log_of(log, self.base) if self.met is None else self.met.origin(log)

    def came(self, log: str) -> str:
        """What a ``log`` of its rows is called among what may change its answers."""
        return log if self.reports else came_log(self.order, *self.origin(log))

    def from_came(self, came: str) -> tuple[str, str]:
        """The stream and the log that ``came`` names."""
        return (self.base, came) if self.reports else read_came(came)

    @property
    def of_hits(self) -> bool:
        """Whether its records are hits of a rule, and nothing else."""
        return self.depth > 1 and self.met is None

    @property
    def reports(self) -> bool:
        """Whether it is reported here which records came twice or late: where they come in, and only there."""
        return self.depth == 1 and self.met is None


@dataclass(frozen=True, slots=True)
class Origin:
    """What a stream comes from, and what others need of its hits; see ``StreamPlan``.

    ``corrected_ms``: how late a record may be that retracts hits; None: none does.
    ``beside``: rule versions that judge its records where those of other streams meet them.
    ``feature_queries``: figures of its records for rules that judge them by another key. ``scored``: the rules
    whose hits are part of risk scores. ``tables``: tables of figures over its records. ``order``,
    ``mixed``: see ``StreamPlan``.
    """

    base: str
    depth: int = 1
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    corrected_ms: int | None = None
    met: StreamJoin | None = None
    beside: Sequence[RuleVersion] = ()
    feature_queries: Sequence[tuple[RuleVersion, Program]] = ()
    scored: Collection[str] = ()
    order: tuple[str, ...] = ()
    mixed: bool = False
    tables: Sequence[Program] = ()
    clock: str | None = None

    @property
    def plan_fields(self) -> dict[str, Any]:
        """The fields that the plan takes over unchanged."""
        return {name: getattr(self, name) for name in ("base", "depth", "carried", "met", "order", "mixed", "clock")}


def compile_stream(
    rules: RuleSet,
    name: str,
    spec: StreamSpec,
    defaults: Defaults,
    layout: Layout | None = None,
    *,
    change: Callable[[RuleVersion, Program], Program] | None = None,
    of: Origin | None = None,
) -> StreamPlan:
    """The plan of stream ``name`` under ``rules``; state stores of ``layout`` are kept where rules still need them.

    ``change``: what becomes of each rule's program before it is compiled.
    """
    layout, of = layout or Layout(), of or Origin(name)
    mine = [v for v in rules.versions if v.rule.reading.name == (name if of.clock is None else of.base)]
    programs = [(v, _program(v, spec, defaults)) for v in mine]
    if change is not None:
        programs = [(version, change(version, program)) for version, program in programs]
    if of.met is not None:
        spec = wide_spec(spec, of.met.reading)
    if of.clock is not None:
        spec = clock_spec(spec)
    corrected = of.corrected_ms is not None
    queries = [(v, change(v, p) if change else p) for v, p in of.feature_queries]
    judged = [(v, remembering(program, spec)) for v, program in programs] if corrected else programs
    windowed = [(version, program) for version, program in judged if program.verdict is not None] + queries
    carried = _carried(of, programs)
    feeds = [(v, program.feed) for v, program in programs if not v.rule.is_hold]  # what is late is as without them
    lateness = lateness_of([*feeds, *((v, v.rule.feed(defaults)) for v in of.beside)], defaults)
    conditions = Conditions.of(each for _, program in (*programs, *queries) for each in program.conditions)
    drafts = []
    for draft, members in assign(name, spec, windowed, layout, defaults):
        for version, program in members:
            _add(draft, version, program, spec)
            shown = (*program.evidence.fields, *program.entity) if corrected else ()
            draft.facts |= dict.fromkeys((*carried.get(version.rule.rule_id, ()), *shown))
        if members:
            draft.state_store = without_idle(draft.state_store, draft.used, draft.programs, defaults)
            draft.state_store = kept_for(draft.state_store, of.corrected_ms or 0)
        if members or draft.state_store.home:
            drafts.append(draft)
    if of.met is None:
        known_ms = copies_known_ms(of.tables, defaults)
        accounting_store, copies = _accounting_stores(drafts, name, spec, lateness, layout, known_ms)
    else:
        accounting_store, copies, drafts = 0, None, [draft for draft in drafts if not draft.idle]
    return StreamPlan(
        stream=name,
        spec=spec,
        state_stores=tuple(_finish(d, () if of.clock is None else (EVENT,)) for d in drafts),
        stateless=tuple(_stateless(*each, of) for each in judged if each[1].verdict is None),
        conditions=conditions,
        accounting_store=accounting_store,
        lateness=lateness,
        programs={(v.rule.rule_id, v.rule.version): program for v, program in programs},
        corrected=corrected,
        copies=copies,
        **{**of.plan_fields, "carried": carried},
    )


def _program(version: RuleVersion, spec: StreamSpec, defaults: Defaults) -> Program:
    program, record = version.rule.program(spec, defaults), carried_record(version.rule, spec, defaults)
    if record is not None:
        program = replace(program, record=record)
    return replace(program, reevaluate=True) if version.rule.judges_again else program


def _carried(of: Origin, programs: Iterable[tuple[RuleVersion, Program]]) -> dict[str, tuple[str, ...]]:
    """By rule the fields that its hits carry: for other rules, and for alerts that carry their record."""
    found = {rule_id: dict.fromkeys(fields) for rule_id, fields in of.carried.items()}
    for version, program in programs:
        if program.record is not None:
            found.setdefault(version.rule.rule_id, {}).update(dict.fromkeys(program.record.names))
    return {rule_id: tuple(fields) for rule_id, fields in found.items()}


def _stateless(version: RuleVersion, program: Program, of: Origin) -> Stateless:
    scored = of.depth == 1 and version.rule.rule_id in of.scored and program.judge_lateness_ms is None
    bounds = [ms for ms in (program.feed.allowed_lateness_ms, program.judge_lateness_ms) if ms is not None]
    return Stateless(
        version=version,
        condition=program.feed.condition.canonical,
        judge_lateness_ms=min(bounds) if bounds else None,
        shown_fields=program.evidence.fields,
        scored_after_ms=program.feed.allowed_lateness_ms if scored else None,
        key_fields=program.entity,
    )


def _add(draft: Draft, version: RuleVersion, program: Program, spec: StreamSpec) -> None:
    """A rule version to the state store that serves it."""
    if any(each.feed.key_fields != program.feed.key_fields for each in program.figures):
        raise ValueError(f"{version.rule.rule_id}: its figures have other keys than the records that are judged")
    name = (version.rule.rule_id, version.rule.version)
    draft.programs.append(program)
    draft.versions.setdefault(name, []).append(version)
    span = (version.effective_from_ms, version.effective_until_ms)
    number_of = partial(filter_of_step, draft, program, spec)
    if len(draft.versions[name]) > 1:
        # In force again after a pause, or under another status: it goes on from what it remembers.
        draft.lines = [_prolonged(each, name, span) for each in draft.lines]
        draft.formulas = [_prolonged(each, name, span) for each in draft.formulas]
        draft.patterns = [_prolonged(each, name, span) for each in draft.patterns]
        draft.absences = [_prolonged(each, name, span) for each in draft.absences]
        draft.feature_queries = [_prolonged(each, name, span) for each in draft.feature_queries]
    elif program.formula is not None:
        draft.formulas.append(formula_of(draft, version, program, program.formula, spec))
    elif program.sequence is not None:
        from crossline.plan.pattern_plans import sequence_of  # noqa: PLC0415 - most rules are none

        draft.patterns.append(sequence_of(version, program, program.sequence, number_of))
    elif program.absence is not None:
        from crossline.plan.pattern_plans import absence_of  # noqa: PLC0415 - as above

        draft.absences.append(absence_of(version, program, program.absence, number_of))
    elif program.query is not None:
        draft.feature_queries.append(feature_query_of(draft, version, program, program.query, spec))
    elif program.comparison is not None:
        draft.lines.append(comparison_of(draft, version, program, program.comparison, spec))


_Judging = TypeVar("_Judging", ComparisonPlan, FormulaPlan, "SequencePlan", "AbsencePlan", FeatureQueryPlan)


def _prolonged(line: _Judging, name: tuple[str, int], span: tuple[int, int]) -> _Judging:
    return replace(line, spans=(*line.spans, span)) if (line.rule_id, line.version) == name else line


def _accounting_stores(
    drafts: list[Draft], stream: str, spec: StreamSpec, lateness: LatenessInForce, layout: Layout, copies_ms: int
) -> tuple[int, int | None]:
    """The numbers of the stores that every record passes through: for accounting, and for copies on that clock.

    The first state store that fits is used, so old ones with history come before new ones. Missing ones are added to
    ``drafts``. Both are the same store where no rule uses event time. Other dedup stores are removed.
    """

    def found(fits: Callable[[StateStore], bool], make: Callable[[int], StateStore]) -> Draft:
        chosen = next((draft for draft in drafts if fits(draft.state_store)), None)
        if chosen is None:
            chosen = Draft(make(layout.made + len(drafts)))
            drafts.append(chosen)
        return chosen

    accounting_store = copies = None
    widest_ms = lateness.widest_ms
    if widest_ms is not None:
        accounting_store = found(
            lambda state_store: state_store.takes_all(spec, widest_ms),
            lambda number: dedup_store(stream, spec, number, widest_ms),
        )
    if any(lateness.on_ingest):
        fields = accounting_store.state_store.group_fields if accounting_store is not None else None
        copies = found(
            lambda state_store: (
                fields in {None, state_store.group_fields} and state_store.knows_copies(spec, copies_ms)
            ),
            lambda number: copies_state_store(stream, (spec.id,) if fields is None else fields, number, copies_ms),
        )
    accounting = accounting_store or copies
    assert accounting is not None  # noqa: S101 - of all rules some are on one of the clocks, or there are none
    drafts[:] = [each for each in drafts if each is accounting_store or each is copies or not each.idle]
    numbers = {id(draft): number for number, draft in enumerate(drafts)}
    return numbers[id(accounting)], None if copies is None else numbers[id(copies)]


def _kernel(draft: Draft) -> WindowPlan | PatternSpacePlan | AbsenceSpacePlan:
    """What the state store's kernel is to judge; which kernel that is follows from its kind."""
    state_store = draft.state_store
    if state_store.ordered:
        from crossline.plan.pattern_spaces import PatternSpacePlan  # noqa: PLC0415 - most rules are none

        return PatternSpacePlan(len(state_store.filters), tuple(draft.patterns), state_store.retention_ms)
    if state_store.waits:
        from crossline.plan.pattern_spaces import AbsenceSpacePlan  # noqa: PLC0415 - as above

        return AbsenceSpacePlan(len(state_store.filters), tuple(draft.absences), state_store.retention_ms)
    common: dict[str, Any] = {
        "columns": state_store.columns,
        "filters": len(state_store.filters),
        "windows": tuple(draft.windows),
        "aggregates": tuple(draft.aggregates),
        "lines": tuple(draft.lines),
        "retention_ms": state_store.retention_ms,
        "formulas": tuple(draft.formulas),
        "feature_queries": tuple(draft.feature_queries),
    }
    if not state_store.resolution_ms:
        return KeySpacePlan(**common)
    settled_ms = state_store.remembers_ms - state_store.known_ms
    return PaneSpacePlan(
        **common, resolution_ms=state_store.resolution_ms, settled_ms=settled_ms, parts=state_store.parts
    )


def _finish(draft: Draft, facts: tuple[str, ...]) -> StorePlan:
    """``facts``: the fields that every record of the plan carries."""
    kernel = _kernel(draft)
    versions = tuple(tuple(draft.versions[line.rule_id, line.version]) for line in kernel.judging)
    return StorePlan(draft.state_store, kernel, versions, tuple(dict.fromkeys((*draft.facts, *facts))))


def layout_of(plans: Iterable[StreamPlan], before: Layout | None = None) -> Layout:
    """The state stores in use, to hand to the next compilation; ``before``: what was handed to this one."""
    state_stores = tuple(lp.state_store for plan in plans for lp in plan.state_stores)
    numbers = [int(state_store.name.rpartition("#")[2]) for state_store in state_stores]
    return Layout(state_stores, max([before.made if before else 0, *(n + 1 for n in numbers)]))
