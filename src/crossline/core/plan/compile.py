"""From rule versions to a stream plan: which records go to which key spaces, and what is judged there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.core.basics.values import I64
from crossline.core.conditions.condition import Condition
from crossline.core.figures.program import Comparison, Figure, Formed, Program
from crossline.core.plan.layers import (
    Draft,
    EntrySpec,
    Layer,
    Layout,
    Programmed,
    assign,
    entry_of,
    home_layer,
    streak_entry,
    without_idle,
)
from crossline.core.plan.spaces import Cursor, FormulaLine, Group, KeySpacePlan, Line, PaneSpacePlan, WindowPlan
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, RuleVersion
from crossline.core.streams.schema import StreamSpec


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """A layer with the lines judged on it.

    ``versions[i]`` is the rule version of line i of ``kernel.judging``, once for each span of time in which it is in
    force. ``facts``: the fields that formulas read, and those that hits carry for other rules.
    """

    layer: Layer
    kernel: WindowPlan
    versions: tuple[tuple[RuleVersion, ...], ...]
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stateless:
    """A rule judged at the record alone."""

    version: RuleVersion
    condition: str
    judge_lateness_ms: int | None
    shown_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LatenessInForce:
    """What the rules in force at an ingest time leave unjudged, and what they take: from ``from_ms[i]`` on the i-th.

    ``late_after_ms``: lateness past which some rule leaves a record unjudged. ``allowed_ms``: past which every rule
    does. ``widest_ms``: the greatest of these there is.
    """

    from_ms: tuple[int, ...]
    late_after_ms: tuple[int, ...]
    allowed_ms: tuple[int, ...]

    @property
    def widest_ms(self) -> int:
        """The greatest lateness that any rule takes at any time."""
        return max(self.allowed_ms)

    def at(self, ingest_ms: I64) -> tuple[I64 | int, I64 | int]:
        """``late_after_ms`` and ``allowed_ms`` for records of these ingest times."""
        if len(self.from_ms) == 1:
            return self.late_after_ms[0], self.allowed_ms[0]
        place = np.searchsorted(np.array(self.from_ms), ingest_ms, side="right") - 1
        return np.array(self.late_after_ms)[place], np.array(self.allowed_ms)[place]


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """Everything that routing and the shards need for one stream.

    ``conditions``: canonical JSON -> compiled condition. ``reporter``: number of the layer that reports duplicates
    and late records and judges the stateless rules. ``programs``: by rule id and version.

    Of the hits of a rule, ``base`` is the stream whose records were hit, and ``level`` one more than that of what the
    rule reads (1: a stream). ``carried``: by rule, the fields that its hits carry, since other rules read them.
    """

    stream: str
    spec: StreamSpec
    layers: tuple[LayerPlan, ...]
    stateless: tuple[Stateless, ...]
    conditions: dict[str, Condition]
    reporter: int
    lateness: LatenessInForce
    programs: dict[tuple[str, int], Program]
    base: str
    level: int = 1
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def of_hits(self) -> bool:
        """Whether its records are hits of a rule."""
        return self.level > 1


@dataclass(frozen=True, slots=True)
class Origin:
    """What a stream comes from, and what others need of its hits; see ``StreamPlan``."""

    base: str
    level: int = 1
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


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
    """The plan of stream ``name`` under ``rules``; layers of ``layout`` are kept where rules still need them.

    ``change``: what becomes of each rule's program before it is compiled.
    """
    layout, of = layout or Layout(), of or Origin(name)
    mine = [v for v in rules.versions if v.rule.source_topic == name]
    programs = [(v, v.rule.program(spec, defaults)) for v in mine]
    if change is not None:
        programs = [(version, change(version, program)) for version, program in programs]
    windowed = [(version, program) for version, program in programs if program.figure is not None]
    stateless = tuple(_stateless(version, program) for version, program in programs if program.figure is None)
    lateness = _lateness(programs, defaults)
    conditions = {c.canonical: c for _, program in programs for c in program.conditions if c.canonical}
    drafts = []
    for draft, members in assign(name, spec, windowed, layout, defaults):
        for version, program in members:
            _add(draft, version, program, spec)
            draft.facts |= dict.fromkeys(of.carried.get(version.rule.rule_id, ()))
        if members:
            draft.layer = without_idle(draft.layer, draft.used, draft.programs, defaults)
        if members or draft.layer.home:
            drafts.append(draft)
    reporter = _reporter(drafts, name, spec, lateness.widest_ms, layout)
    return StreamPlan(
        stream=name,
        spec=spec,
        layers=tuple(_finish(d) for d in drafts),
        stateless=stateless,
        conditions=conditions,
        reporter=reporter,
        lateness=lateness,
        programs={(v.rule.rule_id, v.rule.version): program for v, program in programs},
        base=of.base,
        level=of.level,
        carried=of.carried,
    )


def _lateness(programs: Sequence[Programmed], defaults: Defaults) -> LatenessInForce:
    """Of the versions of one stream that run on event time; the pipeline's own bound where none is in force."""
    bounds = [(v.effective_from_ms, v.effective_until_ms, program.feed.allowed_lateness_ms) for v, program in programs]
    changes = {edge for start, end, ms in bounds if ms is not None for edge in (start, end)}
    edges = sorted({BEGINNING_MS, *changes} - {FOREVER_MS})
    spans: list[tuple[int, int, int]] = []
    for edge in edges:
        allowed = [ms for start, end, ms in bounds if ms is not None and start <= edge < end]
        allowed = allowed or [defaults.allowed_lateness_ms]
        if not spans or spans[-1][1:] != (min(allowed), max(allowed)):
            spans.append((edge, min(allowed), max(allowed)))
    starts, late_after, widest = zip(*spans, strict=True)
    return LatenessInForce(starts, late_after, widest)


def _stateless(version: RuleVersion, program: Program) -> Stateless:
    bounds = [ms for ms in (program.feed.allowed_lateness_ms, program.judge_lateness_ms) if ms is not None]
    return Stateless(
        version, program.feed.condition.canonical, min(bounds) if bounds else None, program.evidence.fields
    )


def _add(draft: Draft, version: RuleVersion, program: Program, spec: StreamSpec) -> None:
    """A rule version to the layer that serves it."""
    if any(each.feed.key_fields != program.feed.key_fields for each in program.figures):
        raise ValueError(f"{version.rule.rule_id}: its figures have other keys than the records that are judged")
    name = (version.rule.rule_id, version.rule.version)
    draft.programs.append(program)
    draft.versions.setdefault(name, []).append(version)
    span = (version.effective_from_ms, version.effective_until_ms)
    if len(draft.versions[name]) > 1:
        # In force again after a pause, or under another status: it goes on from what it remembers.
        draft.lines = [_prolonged(each, name, span) for each in draft.lines]
        draft.formulas = [_prolonged(each, name, span) for each in draft.formulas]
    elif isinstance(program.verdict, Formed):
        draft.formulas.append(_formula(draft, version, program, program.verdict, spec))
    elif program.verdict is not None and program.figure is not None:
        draft.lines.append(_line(draft, version, program, program.verdict, spec))


_Judging = TypeVar("_Judging", Line, FormulaLine)


def _prolonged(line: _Judging, name: tuple[str, int], span: tuple[int, int]) -> _Judging:
    return replace(line, spans=(*line.spans, span)) if (line.rule_id, line.version) == name else line


def _entry(draft: Draft, entry: EntrySpec) -> int:
    number = draft.layer.entries.index(entry)
    draft.used.add(number)
    return number


def _group(draft: Draft, figure: Figure, spec: StreamSpec, *, counted: bool = False) -> int:
    """The number of the group that is ``figure``, or that counts what is in its window."""
    window = figure.window
    cursor = Cursor(
        entry=_entry(draft, entry_of(figure.feed, spec, figure.column)),
        window_ms=window.length_ms,
        left_closed=window.bounds[0] == "[",
        right_open=window.bounds[1] == ")",
        include_current=window.include_current,
        delay_ms=window.delay_ms,
        resolution_ms=window.resolution_ms,
    )
    number = draft.cursors.setdefault(cursor, len(draft.cursors))
    column = -1
    if figure.aggregate == "streak" and not counted:
        column = _entry(draft, streak_entry(figure))
    elif figure.column is not None and figure.column_kind is not None and not counted:
        column = draft.layer.columns.index((figure.column, figure.column_kind))
    group = Group(number, column, "count") if counted else Group(number, column, figure.aggregate, figure.rank)
    return draft.groups.setdefault(group, len(draft.groups))


def _line(draft: Draft, version: RuleVersion, program: Program, verdict: Comparison, spec: StreamSpec) -> Line:
    if program.figures[0].feed != program.feed:
        raise ValueError(f"{version.rule.rule_id}: a line is a figure of the feed that is judged")
    return Line(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        group=_group(draft, program.figures[0], spec),
        operator=verdict.operator,
        threshold=verdict.threshold,
        emit_every=program.emission.every,
        cooldown_ms=program.emission.cooldown_ms,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
    )


def _formula(draft: Draft, version: RuleVersion, program: Program, verdict: Formed, spec: StreamSpec) -> FormulaLine:
    draft.facts |= dict.fromkeys(verdict.fields)
    rearm_ms = program.emission.rearm_ms
    if rearm_ms is None:
        rearm_ms = max(each.window.rearm_ms for each in program.figures)
    groups = [(_group(draft, each, spec), _group(draft, each, spec, counted=True)) for each in program.figures]
    return FormulaLine(
        rule_id=version.rule.rule_id,
        version=version.rule.version,
        entry=_entry(draft, entry_of(program.feed, spec)),
        figures=tuple((name, *each) for name, each in zip(verdict.names, groups, strict=True)),
        verdict=verdict,
        rearm_ms=rearm_ms,
        emit_every=program.emission.every,
        cooldown_ms=program.emission.cooldown_ms,
        spans=((version.effective_from_ms, version.effective_until_ms),),
        judge_lateness_ms=program.judge_lateness_ms,
    )


def _reporter(drafts: list[Draft], stream: str, spec: StreamSpec, widest_ms: int, layout: Layout) -> int:
    """The number of the layer that every record passes through; it is added to ``drafts`` where there is none.

    The first that can, so that old layers, which know the past, come before new ones. Homes that are not it go.
    """
    chosen = next((d for d in drafts if d.layer.takes_all(spec, widest_ms)), None)
    if chosen is None:
        chosen = Draft(home_layer(stream, spec, layout.made + len(drafts), widest_ms))
        drafts.append(chosen)
    drafts[:] = [d for d in drafts if d is chosen or not d.idle]
    return drafts.index(chosen)


def _kernel(draft: Draft) -> WindowPlan:
    """What the layer's kernel is to judge; which kernel that is follows from its kind."""
    layer = draft.layer
    common: dict[str, Any] = {
        "columns": layer.columns,
        "entries": len(layer.entries),
        "cursors": tuple(draft.cursors),
        "groups": tuple(draft.groups),
        "lines": tuple(draft.lines),
        "retention_ms": layer.retention_ms,
        "formulas": tuple(draft.formulas),
    }
    if not layer.resolution_ms:
        return KeySpacePlan(**common)
    settled_ms = layer.remembers_ms - layer.known_ms
    return PaneSpacePlan(**common, resolution_ms=layer.resolution_ms, settled_ms=settled_ms, parts=layer.parts)


def _finish(draft: Draft) -> LayerPlan:
    layer = draft.layer
    kernel = _kernel(draft)
    versions = tuple(tuple(draft.versions[line.rule_id, line.version]) for line in kernel.judging)
    return LayerPlan(layer, kernel, versions, tuple(draft.facts))


def layout_of(plans: Iterable[StreamPlan], before: Layout | None = None) -> Layout:
    """The layers in use, to hand to the next compilation; ``before``: what was handed to this one."""
    layers = tuple(lp.layer for plan in plans for lp in plan.layers)
    numbers = [int(layer.name.rpartition("#")[2]) for layer in layers]
    return Layout(layers, max([before.made if before else 0, *(n + 1 for n in numbers)]))
