"""From rule versions to a stream plan: which records go to which key spaces, and what is judged there.

A *layer* is what one store keeps of a key space: columns, entries, retention. Rules share a layer; a rule that comes
later and needs a column, an entry or a longer past that no layer of its key space has gets a new layer, so that the
running rules keep theirs. The layout (all layers) is a plain value: it is handed from one compilation to the next and
to every worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from crossline.core.plan import ColumnKind, Cursor, Group, KeySpacePlan, Line, TimeMode
from crossline.core.rules.base import Defaults, StatelessRule, WindowRule, WindowSpec
from crossline.core.rules.condition import Condition
from crossline.core.rules.ruleset import RuleSet, RuleVersion
from crossline.core.schema import StreamSpec


@dataclass(frozen=True, slots=True)
class EntrySpec:
    """Which records enter a window.

    ``condition`` (canonical JSON, '' for none), a column that must be present, a bound on lateness (None: no bound).
    """

    condition: str
    column: str | None
    allowed_lateness_ms: int | None


@dataclass(frozen=True, slots=True)
class Layer:
    """What one store keeps of one key space."""

    name: str
    group_fields: tuple[str, ...]
    time_mode: TimeMode
    columns: tuple[tuple[str, ColumnKind], ...]
    entries: tuple[EntrySpec, ...]
    retention_ms: int


Layout = tuple[Layer, ...]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """A layer with the lines judged on it.

    ``versions[i]`` is the rule version of line i, once for each span of time in which it is in force.
    """

    layer: Layer
    kernel: KeySpacePlan
    versions: tuple[tuple[RuleVersion, ...], ...]


@dataclass(frozen=True, slots=True)
class Stateless:
    """A rule judged at the record alone."""

    version: RuleVersion
    condition: str
    allowed_lateness_ms: int | None
    judge_lateness_ms: int | None
    figure_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Everything that routing and the shards need for one stream.

    ``conditions``: canonical JSON -> compiled condition. ``reporter``: number of the layer that reports duplicates
    and late records and judges the stateless rules. ``late_after_ms``: lateness past which some rule leaves a record
    unjudged. ``makers``: scratch for the alert makers of versions.
    """

    stream: str
    spec: StreamSpec
    layers: tuple[LayerPlan, ...]
    stateless: tuple[Stateless, ...]
    conditions: dict[str, Condition]
    reporter: int
    late_after_ms: int
    allowed_lateness_ms: int
    makers: dict[int, Any] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class _Draft:
    """A layer being compiled."""

    layer: Layer
    cursors: dict[Cursor, int] = field(default_factory=dict)
    groups: dict[Group, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    versions: list[list[RuleVersion]] = field(default_factory=list)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)  # of lines, by rule id and version


def compile_stream(rules: RuleSet, name: str, spec: StreamSpec, defaults: Defaults, layout: Layout = ()) -> StreamPlan:
    """The plan of stream ``name`` under ``rules``; layers of ``layout`` are kept where rules still need them."""
    mine = [v for v in rules.versions if v.rule.source_topic == name]
    windowed = [(v, v.rule.window_spec(spec, defaults)) for v in mine if isinstance(v.rule, WindowRule)]
    stateless = tuple(_stateless(v, defaults) for v in mine if isinstance(v.rule, StatelessRule))
    bounds = [s.allowed_lateness_ms for _, s in windowed] + [s.allowed_lateness_ms for s in stateless]
    event_bounds = [b for b in bounds if b is not None] or [defaults.allowed_lateness_ms]
    conditions = {c.canonical: c for v in mine for c in v.rule.all_conditions() if c.canonical}
    drafts = _assign(name, spec, windowed, [layer for layer in layout if layer.name.startswith(f"{name}|")])
    reporter = _reporter(drafts, name, spec, max(event_bounds))
    return StreamPlan(
        stream=name,
        spec=spec,
        layers=tuple(_finish(d) for d in drafts),
        stateless=stateless,
        conditions=conditions,
        reporter=reporter,
        late_after_ms=min(event_bounds),
        allowed_lateness_ms=max(event_bounds),
    )


def _stateless(version: RuleVersion, defaults: Defaults) -> Stateless:
    rule = version.rule
    lateness = rule.lateness(defaults)
    bounds = [b for b in (lateness.allowed_ms, lateness.judged_ms) if b is not None]
    return Stateless(
        version, rule.condition.canonical, lateness.allowed_ms, min(bounds) if bounds else None, rule.figure_fields()
    )


def _needs(window: WindowSpec, spec: StreamSpec) -> tuple[EntrySpec, tuple[tuple[str, ColumnKind], ...]]:
    """The entry and the columns of a window; a column that every record has makes no entry of its own."""
    present = window.column if window.column is not None and spec.columns[window.column].optional else None
    entry = EntrySpec(window.condition.canonical, present, window.allowed_lateness_ms)
    kept = window.column is not None and window.column_kind is not None
    return entry, ((window.column, window.column_kind),) if kept else ()  # type: ignore[return-value]


def _assign(
    stream: str, spec: StreamSpec, windowed: list[tuple[RuleVersion, WindowSpec]], old: list[Layer]
) -> list[_Draft]:
    """Each window rule to the first layer that can serve it, old layers first.

    What is left of a key space goes to one new layer.
    """
    drafts = [_Draft(layer) for layer in old]
    fresh: dict[tuple[TimeMode, tuple[str, ...]], list[tuple[RuleVersion, WindowSpec]]] = {}
    for version, window in windowed:
        home = next((d for d in drafts if _serves(d.layer, window, spec)), None)
        if home is None:
            fresh.setdefault((window.time_mode, window.group_fields), []).append((version, window))
        else:
            _add_line(home, version, window, spec)
    for (mode, fields), members in fresh.items():
        prefix = f"{stream}|{mode}|{','.join(fields)}#"
        generation = 1 + max((int(x.name.removeprefix(prefix)) for x in old if x.name.startswith(prefix)), default=-1)
        needs = [_needs(w, spec) for _, w in members]
        layer = Layer(
            name=f"{prefix}{generation}",
            group_fields=fields,
            time_mode=mode,
            columns=_unique(column for _, columns in needs for column in columns),
            entries=_unique(entry for entry, _ in needs),
            retention_ms=max(w.retention_ms for _, w in members),
        )
        draft = _Draft(layer)
        for version, window in members:
            _add_line(draft, version, window, spec)
        drafts.append(draft)
    return [_without_idle_entries(d) for d in drafts if d.lines]


RETIRED = EntrySpec("retired", None, None)


def _without_idle_entries(draft: _Draft) -> _Draft:
    """Entries that no line reads are given up for good.

    Records would be missing from them by the time a rule came back.
    """
    used = {cursor.entry for cursor in draft.cursors}
    entries = tuple(e if n in used else RETIRED for n, e in enumerate(draft.layer.entries))
    draft.layer = replace(draft.layer, entries=entries)
    return draft


def _serves(layer: Layer, window: WindowSpec, spec: StreamSpec) -> bool:
    entry, columns = _needs(window, spec)
    return (
        not layer.name.endswith("#home")
        and (layer.time_mode, layer.group_fields) == (window.time_mode, window.group_fields)
        and entry in layer.entries
        and set(columns) <= set(layer.columns)
        and layer.retention_ms >= window.retention_ms
    )


def _unique(items: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(items))


def _add_line(draft: _Draft, version: RuleVersion, window: WindowSpec, spec: StreamSpec) -> None:
    span = (version.effective_from_ms, version.effective_until_ms)
    number = draft.numbers.setdefault((version.rule.rule_id, version.rule.version), len(draft.lines))
    if number < len(draft.lines):
        # In force again after a pause, or under another status: it goes on from what it remembers.
        draft.lines[number] = replace(draft.lines[number], spans=(*draft.lines[number].spans, span))
        draft.versions[number].append(version)
        return
    entry, columns = _needs(window, spec)
    cursor = Cursor(
        entry=draft.layer.entries.index(entry),
        window_ms=window.window_ms,
        left_closed=window.bounds[0] == "[",
        right_open=window.bounds[1] == ")",
        include_current=window.include_current,
    )
    cursor_number = draft.cursors.setdefault(cursor, len(draft.cursors))
    column = -1 if window.aggregate == "count" or not columns else draft.layer.columns.index(columns[0])
    group = Group(cursor_number, column, window.aggregate)
    draft.versions.append([version])
    draft.lines.append(
        Line(
            rule_id=version.rule.rule_id,
            version=version.rule.version,
            group=draft.groups.setdefault(group, len(draft.groups)),
            operator=window.operator,
            threshold=window.threshold,
            emit_every=window.emit_every,
            cooldown_ms=window.cooldown_ms,
            spans=(span,),
            judge_lateness_ms=window.judge_lateness_ms,
        )
    )


def _reporter(drafts: list[_Draft], stream: str, spec: StreamSpec, allowed_lateness_ms: int) -> int:
    """The layer that every record passes through.

    Where no rule's layer takes them all, one keyed by record id is added.
    """
    everything = EntrySpec("", None, allowed_lateness_ms)
    for number, draft in enumerate(drafts):
        layer = draft.layer
        always_keyed = all(not spec.columns[f].optional for f in layer.group_fields)
        if layer.time_mode == "event_time" and everything in layer.entries and always_keyed:
            return number
    home = Layer(
        f"{stream}|event_time|{spec.id}#home", (spec.id,), "event_time", (), (everything,), allowed_lateness_ms
    )
    drafts.append(_Draft(home))
    return len(drafts) - 1


def _finish(draft: _Draft) -> LayerPlan:
    layer = draft.layer
    kernel = KeySpacePlan(
        columns=layer.columns,
        entries=len(layer.entries),
        cursors=tuple(draft.cursors),
        groups=tuple(draft.groups),
        lines=tuple(draft.lines),
        retention_ms=layer.retention_ms,
    )
    return LayerPlan(layer, kernel, tuple(map(tuple, draft.versions)))


def layout_of(plans: Iterable[StreamPlan]) -> Layout:
    """The layers in use, to hand to the next compilation."""
    return tuple(lp.layer for plan in plans for lp in plan.layers if not lp.layer.name.endswith("#home"))


def without_past(rules: RuleSet, since_ms: int) -> RuleSet:
    """``rules`` without the versions whose effective time ended before ``since_ms``."""
    return replace(rules, versions=tuple(v for v in rules.versions if v.effective_until_ms > since_ms))
