"""Compiles all plans of a rule set: the plans of its streams and of its derived streams.

The plan of a derived stream has the depth of its rule's input plus one, and is judged one stage later. The deepest
plans are compiled first, because they determine the fields that hits carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, Leaf
from crossline.basics.streams.clocks import clock_of, plan_name
from crossline.basics.streams.inputs import HIT, RULE, Reading, rule_of, several_of
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import FOREVER_MS
from crossline.plan.compile import Origin, StreamPlan, compile_stream
from crossline.plan.lateness import LatenessInForce, lateness_of
from crossline.plan.state_stores import Layout
from crossline.plan.stream_join import StreamJoin, read_of, wide_program
from crossline.programs.program import Feed, Program
from crossline.rules.base import Defaults, Rule
from crossline.rules.composition import Sources, bases_of
from crossline.rules.ruleset import RuleSet, RuleVersion

_IS_ACTIVE = Leaf(f"{HIT}.shadow", "==", False)


def compile_all(
    rules: RuleSet,
    streams: Mapping[str, StreamSpec],
    defaults: Defaults,
    layout: Layout | None = None,
    *,
    probing: int = 0,
    holding: bool = False,
) -> dict[str, StreamPlan]:
    """The plans by name, of streams first, then of hits by their depth.

    Hits without a reader have none, nor have those of a rule that is not there; a rule whose fields the hits have no
    more is left out. ``probing``: rules that look back and are judged at this depth alert at every record that they
    have a figure at, or that takes a step; no depth above it is judged (0: none). ``holding``: there are decisions that
    alerts may hold.
    """
    sources = sources_of(rules, streams)
    holds = _holds(rules, sources, defaults) if holding else ()
    rules = RuleSet((*(v for v in rules.versions if _is_stream(v.rule.reading) or _fits(v, sources)), *holds))
    readings = (each for v in rules.versions for each in (v.rule.reading, *v.rule.reading.cross_key))
    read = {each.name: each for each in readings if not _is_stream(each)}
    there = {name: depth for name, each in read.items() if (depth := sources.depth_of(each)) <= (probing or depth)}
    way = sorted(there, key=there.__getitem__, reverse=True)
    carried: dict[str, dict[str, None]] = {}
    scored: set[str] = set()
    corrected = _corrected(rules, sources, defaults)
    feature_queries = _feature_queries(rules, sources, defaults, corrected)
    order = _order(read.values(), sources)
    plans: dict[str, StreamPlan] = {}
    bases: dict[str, set[str]] = {}
    clocked = _clocked(rules, streams)
    apart = {id(version) for on in clocked.values() for version in on.rules.versions}
    plain = RuleSet(tuple(version for version in rules.versions if id(version) not in apart))
    for name in [*way, *streams, *clocked]:
        on = clocked.get(name) or _OnClock(name, None, plain)
        reading = read.get(name) or Reading((on.stream,))
        here = {v.rule.rule_id for v in on.rules.versions if v.rule.reading.name == reading.name}
        origin = _origin(name, reading, rules, sources, defaults, bases)
        corrected_ms = _corrected_by(reading, corrected)
        again = corrected_ms is not None and not reading.judged_once
        change = _change(rules, reading, probing=origin.depth == probing, again=again)
        if origin.met is not None:
            scored |= {each.removeprefix(RULE) for each in chain(*origin.met.members.values())}
        origin = replace(
            origin,
            carried={rule_id: tuple(fields) for rule_id, fields in carried.items() if rule_id in here},
            corrected_ms=corrected_ms,
            feature_queries=feature_queries.get(name, ()),
            scored=scored,
            order=order,
            clock=on.clock,
        )
        mode = defaults if on.clock is None else replace(defaults, time_mode="event_time")
        spec = sources.of_reading(reading)
        plan = plans[name] = compile_stream(on.rules, name, spec, mode, layout, change=change, of=origin)
        for rule_id, fields in _requested_fields(plan, reading).items():
            carried.setdefault(rule_id, {}).update(dict.fromkeys(fields))
    plans = {name: _with_tables(plan, plans.values()) for name, plan in plans.items()}
    _assign_clocks(plans, clocked.values(), defaults)
    return dict(sorted(plans.items(), key=lambda each: each[1].depth))


def _holds(rules: RuleSet, sources: Sources, defaults: Defaults) -> tuple[RuleVersion, ...]:
    from crossline.rules.holds.hold import holds_of  # noqa: PLC0415 - where there is a policy

    return holds_of(rules, sources, defaults)


def _origin(
    name: str,
    reading: Reading,
    rules: RuleSet,
    sources: Sources,
    defaults: Defaults,
    bases: dict[str, set[str]],
) -> Origin:
    """The origin of plan ``name`` as far as ``rules`` and their sources decide it; ``bases``: those found so far."""
    joined = [v for v in rules.versions if not v.rule.reading.single and name in v.rule.reading.judged]
    return Origin(
        base=sources.base(reading.judged[0]),
        depth=sources.depth_of(reading),
        met=None if reading.single else _stream_join(reading, sources),
        beside=[v for v in joined if not v.rule.is_hold],  # what is late is as without them
        mixed=len(_bases(reading, sources, bases)) > 1,
        tables=[_table(v, sources, defaults) for v in rules.versions if _is_table_of(v, name)],
    )


def _assign_clocks(plans: dict[str, StreamPlan], clocked: Iterable[_OnClock], defaults: Defaults) -> None:
    """Give the plans of streams the lateness of the rules on each of their other clocks."""
    for on in clocked:
        if on.clock is not None:
            known = {**plans[on.stream].clocks, on.clock: _lateness_on(on, defaults)}
            plans[on.stream] = replace(plans[on.stream], clocks=known)


@dataclass(frozen=True, slots=True)
class _OnClock:
    """Rules that read ``stream``, and judge by one of its clocks; None: by its event time."""

    stream: str
    clock: str | None
    rules: RuleSet


def _clocked(rules: RuleSet, streams: Mapping[str, StreamSpec]) -> dict[str, _OnClock]:
    """The rules that judge by other clocks than event time, by the name of their plan."""
    found: dict[tuple[str, str], list[RuleVersion]] = {}
    for version in rules.versions:
        rule = version.rule
        if _is_stream(rule.reading) and rule.reading.name in streams:
            clock = clock_of(rule.timestamp_field, streams[rule.reading.name])
            if clock is not None:
                found.setdefault((rule.reading.name, clock), []).append(version)
    return {
        plan_name(stream, clock): _OnClock(stream, clock, RuleSet(tuple(mine)))
        for (stream, clock), mine in sorted(found.items())
    }


def _mode_of(rule: Rule, streams: Mapping[str, StreamSpec], defaults: Defaults) -> Defaults:
    """``defaults`` of a rule: one that names a clock goes by it, whatever others go by."""
    spec = streams.get(rule.reading.name)
    on_clock = spec is not None and clock_of(rule.timestamp_field, spec) is not None
    return replace(defaults, time_mode="event_time") if on_clock else defaults


def _lateness_on(on: _OnClock, defaults: Defaults) -> LatenessInForce:
    """What rules of a clock take by it; where none is in force, whatever comes."""
    mode = replace(defaults, time_mode="event_time")
    feeds = [(version, version.rule.feed(mode)) for version in on.rules.versions]
    return lateness_of(feeds, replace(mode, allowed_lateness_ms=FOREVER_MS * 2 - 1))


def _corrected(rules: RuleSet, sources: Sources, defaults: Defaults) -> dict[str, int]:
    """The rules whose hits may be retracted, and how late a record may be that retracts them.

    These are the rules with ``reevaluate`` and the rules that read their hits, without risk scores.
    """
    found: dict[str, int] = {}
    for rule_id, head in sorted(sources.heads.items(), key=lambda each: sources.depth_of(each[1].reading)):
        mine = [version.rule for version in rules.versions if version.rule.rule_id == rule_id]
        below = _corrected_by(head.reading, found)
        again = below is not None or any(rule.judges_again for rule in mine)
        if again and not head.reading.judged_once:
            late_ms = (rule.lateness(_mode_of(rule, sources.streams, defaults)).allowed_ms for rule in mine)
            found[rule_id] = max([below or 0, *(ms or 0 for ms in late_ms)])
    return found


def _corrected_by(reading: Reading, corrected: Mapping[str, int]) -> int | None:
    """How late a record may be that retracts what is read; None: nothing is retracted."""
    read = {rule_of(source) for source in reading.sources}
    return max((late_ms for rule_id, late_ms in corrected.items() if rule_id in read), default=None)


def _bases(reading: Reading, sources: Sources, known: dict[str, set[str]]) -> set[str]:
    """The streams that what is read rests on; ``known``: those that the hits of rules do, found once each."""
    found: set[str] = set()
    for source in reading.sources:
        rule_id = rule_of(source)
        if several_of(source) is not None:
            found |= {*bases_of(source, sources.heads)}
        elif rule_id is None:
            found.add(source)
        else:
            if rule_id not in known:
                known[rule_id] = _bases(sources.heads[rule_id].reading, sources, known)
            found |= known[rule_id]
    return found


def _order(readings: Iterable[Reading], sources: Sources) -> tuple[str, ...]:
    """The streams, those first that rules look at beside the records that they judge; else by name."""
    before: dict[str, set[str]] = {name: set() for name in sources.streams}
    for reading in readings:
        if rule_of(reading.judged[0]) is None:
            before[reading.judged[0]] |= {side_input.source for side_input in reading.side_inputs} & before.keys()
    found: list[str] = []
    while len(found) < len(before):
        left = sorted(before.keys() - set(found))
        found.append(next((name for name in left if before[name] - {name} <= set(found)), left[0]))
    return tuple(found)


def _with_tables(plan: StreamPlan, plans: Iterable[StreamPlan]) -> StreamPlan:
    """``plan`` with the tables of its stream that something reads: its own rules, those of hits, those of meetings."""
    if plan.of_hits or plan.met is not None or not plan.spec.enrich:
        return plan
    read = {*reads(plan)}
    for each in plans:
        if each.clock is not None and each.base == plan.stream:
            read |= {*reads(each)}
        if each.met is not None and plan.stream in each.met.specs:
            read |= {field for columns in columns_from(each, plan.stream).values() for field in columns.values()}
    read -= plan.spec.own_columns.keys()
    return replace(plan, tables=tuple(t for t in plan.spec.enrich if any(name.startswith(f"{t}.") for name in read)))


def _feature_queries(
    rules: RuleSet, sources: Sources, defaults: Defaults, corrected: Mapping[str, int]
) -> dict[str, list[tuple[RuleVersion, Program]]]:
    """By plan the feature queries for records judged by another key; replayed where those records are replayed."""
    found: dict[str, list[tuple[RuleVersion, Program]]] = {}
    for version in rules.versions:
        rule = version.rule
        if rule.reading.cross_key:
            program = rule.program(sources.of_reading(rule.reading), defaults)
            below = not rule.reading.judged_once and _corrected_by(rule.reading, corrected) is not None
            again = rule.judges_again or (below and not program.in_panes)
            for each in program.cross_key:
                query = replace(each.program, reevaluate=True) if again else each.program
                found.setdefault(each.reading.name, []).append((version, query))
    return found


def _is_table_of(version: RuleVersion, name: str) -> bool:
    return version.rule.is_table and name in version.rule.reading.judged


def _table(version: RuleVersion, sources: Sources, defaults: Defaults) -> Program:
    return version.rule.program(sources.of_reading(version.rule.reading), defaults)


def _is_stream(reading: Reading) -> bool:
    return reading.single and rule_of(reading.judged[0]) is None


def _stream_join(reading: Reading, sources: Sources) -> StreamJoin:
    scores = [source for source in reading.sources if several_of(source) is not None]
    members = {source: tuple(f"{RULE}{rule_id}" for rule_id in sources.members(source)) for source in scores}
    of = [*(source for source in reading.sources if source not in members), *chain(*members.values())]
    return StreamJoin(
        reading,
        {source: sources[source] for source in of},
        {source: sources.depth(source) for source in of},
        {source: sources.base(source) for source in of},
        members,
    )


def _requested_fields(plan: StreamPlan, reading: Reading) -> dict[str, list[str]]:
    """By rule whose hits ``plan`` reads, the fields of these, beside what every hit has."""
    found: dict[str, list[str]] = {}
    for source in reading.sources if plan.met is None else plan.met.depths:
        rule_id = rule_of(source)
        if rule_id is not None:
            read = columns_from(plan, source)
            found[rule_id] = [field for each in read.values() for field in each.values() if not _of_hit(field)]
    return found


def _of_hit(field: str) -> bool:
    return field.startswith(f"{HIT}.")


def columns_from(plan: StreamPlan, source: str) -> dict[str, dict[str, str]]:
    """By part of ``plan`` that ``source`` has: the columns that come from it, each with the field that it is there."""
    names = reads(plan)
    if plan.met is None:
        return {source: {name: name for name in names}}
    keys = tuple(
        dict.fromkeys(key for each in plan.state_stores for fields in each.state_store.namings for key in fields)
    )
    spec = plan.met.specs[source]
    found = {name: read_of(names, keys, side_input, spec) for name, side_input in plan.met.of(source)}
    # Of the hits of several rules some may have another field of that name.
    return {
        name: {here: there for here, there in each.items() if plan.spec.columns[here].kind == spec.columns[there].kind}
        for name, each in found.items()
    }


def _fits(version: RuleVersion, sources: Sources) -> bool:
    """Whether there are hits for it, with the fields that it reads."""
    reading = version.rule.reading
    if sources.findings(reading):
        return False
    return not version.rule.stream_findings(reading.judges, sources.of_reading(reading), None)


def sources_of(rules: RuleSet, streams: Mapping[str, StreamSpec]) -> Sources:
    """What the rules of a set may read: of several versions of a rule, the last defines its hits."""
    return Sources(streams, rules.heads, any_key=True)


def reads(plan: StreamPlan) -> tuple[str, ...]:
    """The fields of its records that its own rules read, and the rules that read its hits."""
    found = [plan.spec.id] if plan.met is None else []
    for each in plan.state_stores:
        found += [
            *(name for fields in each.state_store.namings for name in fields),
            *each.facts,
            *(name for name, _ in each.state_store.columns),
        ]
        found += [one.column for one in each.state_store.filters if one.column is not None]
    for condition in plan.conditions.values():
        found += condition.fields()
    for rule in plan.stateless:
        found += [*rule.shown_fields, *rule.key_fields, *plan.carried.get(rule.version.rule.rule_id, ())]
    return tuple(dict.fromkeys(found))


def known_later(plans: Iterable[StreamPlan]) -> set[str]:
    """The rules that rest on hits which may be known long after their records: of absences, of records that waited.

    Such hits themselves say so (``Hit.known_ms``): another version of the rule may be of another type.
    """
    found: set[str] = set()
    begins: set[str] = set()
    for plan in sorted(plans, key=lambda each: each.depth):
        # What is known later may be part of a risk score, which is that of then.
        sources = [plan.stream] if plan.met is None else [*plan.met.plain, *_cross_key_inputs(plan.met)]
        rests = any(rule_of(source) in found | begins for source in sources)
        for (name, _), program in plan.programs.items():
            if rests:
                found.add(name)
            elif program.absence is not None or (program.formula is not None and program.formula.waits):
                begins.add(name)
    return found


def _cross_key_inputs(met: StreamJoin) -> list[str]:
    """The sources of figures of other keys, but for risk scores."""
    side_inputs = (side_input.source for each in met.reading.cross_key for side_input in each.side_inputs)
    return [source for source in side_inputs if several_of(source) is None]


def _change(
    rules: RuleSet, reading: Reading, *, probing: bool, again: bool
) -> Callable[[RuleVersion, Program], Program] | None:
    """Hits of a shadow rule are for shadow rules; where several sources meet, programs are over the rows of all.

    Rules that read hits which may be retracted judge ``again``.

    A version that is shadow for a while is one thing to its windows: it is as strict as it was when it was active. That
    is so whatever versions of the other rule there are, so that windows do not end with these.
    """
    if _is_stream(reading) and not probing:
        return None
    strict = {(v.rule.rule_id, v.rule.version) for v in rules.versions if v.kind == "active"}

    def changed(version: RuleVersion, program: Program) -> Program:
        active = (version.rule.rule_id, version.rule.version) in strict
        if not reading.single:
            program = wide_program(program, reading, strict=active)
        elif active and not _is_stream(reading):
            program = _of_active(program)
        if again and not program.in_panes and program.kind not in {"absence", "query"}:
            program = replace(program, reevaluate=True)
        return program.probing() if probing else program

    return changed


def _of_active(program: Program) -> Program:
    """``program`` over the hits of active rules alone."""

    def of_active(feed: Feed) -> Feed:
        return replace(feed, condition=Condition(AllOf((feed.condition.node, _IS_ACTIVE))))

    return program.over(of_active)
