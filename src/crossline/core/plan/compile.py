"""From rule versions to a stream plan: which records go to which key spaces, and what is judged there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crossline.core.basics.times import BEGINNING_MS, FOREVER_MS
from crossline.core.basics.values import I64
from crossline.core.conditions.condition import Condition
from crossline.core.figures.program import Program
from crossline.core.plan.layers import Draft, Layer, Layout, Programmed, assign, home_layer, needs_of, without_idle
from crossline.core.plan.spaces import Cursor, Group, KeySpacePlan, Line
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, RuleVersion
from crossline.core.streams.schema import StreamSpec


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
    """

    stream: str
    spec: StreamSpec
    layers: tuple[LayerPlan, ...]
    stateless: tuple[Stateless, ...]
    conditions: dict[str, Condition]
    reporter: int
    lateness: LatenessInForce
    programs: dict[tuple[str, int], Program]


def compile_stream(
    rules: RuleSet,
    name: str,
    spec: StreamSpec,
    defaults: Defaults,
    layout: Layout | None = None,
    *,
    probing: bool = False,
) -> StreamPlan:
    """The plan of stream ``name`` under ``rules``; layers of ``layout`` are kept where rules still need them.

    ``probing``: rules with windows alert at every record that they have a figure at.
    """
    layout = layout or Layout()
    mine = [v for v in rules.versions if v.rule.source_topic == name]
    programs = [(v, v.rule.program(spec, defaults)) for v in mine]
    if probing:
        programs = [(version, program.probing()) for version, program in programs]
    windowed = [(version, program) for version, program in programs if program.figure is not None]
    stateless = tuple(_stateless(version, program) for version, program in programs if program.figure is None)
    lateness = _lateness(programs, defaults)
    conditions = {c.canonical: c for v in mine for c in v.rule.all_conditions() if c.canonical}
    drafts = []
    for draft, members in assign(name, spec, windowed, layout, defaults):
        for version, program in members:
            _add_line(draft, version, program, spec)
        if members:
            used = {cursor.entry for cursor in draft.cursors}
            draft.layer = without_idle(draft.layer, used, draft.programs, defaults)
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


def _add_line(draft: Draft, version: RuleVersion, program: Program, spec: StreamSpec) -> None:
    figure, verdict = program.figure, program.verdict
    if figure is None or verdict is None or figure.feed != program.feed:
        raise ValueError(f"{version.rule.rule_id}: a line is a figure of the feed that is judged")
    span = (version.effective_from_ms, version.effective_until_ms)
    draft.programs.append(program)
    number = draft.numbers.setdefault((version.rule.rule_id, version.rule.version), len(draft.lines))
    if number < len(draft.lines):
        # In force again after a pause, or under another status: it goes on from what it remembers.
        draft.lines[number] = replace(draft.lines[number], spans=(*draft.lines[number].spans, span))
        draft.versions[number].append(version)
        return
    entry, columns = needs_of(program, spec)
    cursor = Cursor(
        entry=draft.layer.entries.index(entry),
        window_ms=figure.window.length_ms,
        left_closed=figure.window.bounds[0] == "[",
        right_open=figure.window.bounds[1] == ")",
        include_current=figure.window.include_current,
    )
    cursor_number = draft.cursors.setdefault(cursor, len(draft.cursors))
    column = -1 if figure.aggregate == "count" or not columns else draft.layer.columns.index(columns[0])
    group = Group(cursor_number, column, figure.aggregate)
    draft.versions.append([version])
    draft.lines.append(
        Line(
            rule_id=version.rule.rule_id,
            version=version.rule.version,
            group=draft.groups.setdefault(group, len(draft.groups)),
            operator=verdict.operator,
            threshold=verdict.threshold,
            emit_every=program.emission.every,
            cooldown_ms=program.emission.cooldown_ms,
            spans=(span,),
            judge_lateness_ms=program.judge_lateness_ms,
        )
    )


def _reporter(drafts: list[Draft], stream: str, spec: StreamSpec, widest_ms: int, layout: Layout) -> int:
    """The number of the layer that every record passes through; it is added to ``drafts`` where there is none.

    The first that can, so that old layers, which know the past, come before new ones. Homes that are not it go.
    """
    chosen = next((d for d in drafts if d.layer.takes_all(spec, widest_ms)), None)
    if chosen is None:
        chosen = Draft(home_layer(stream, spec, layout.made + len(drafts), widest_ms))
        drafts.append(chosen)
    drafts[:] = [d for d in drafts if d is chosen or d.lines]
    return drafts.index(chosen)


def _finish(draft: Draft) -> LayerPlan:
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


def layout_of(plans: Iterable[StreamPlan], before: Layout | None = None) -> Layout:
    """The layers in use, to hand to the next compilation; ``before``: what was handed to this one."""
    layers = tuple(lp.layer for plan in plans for lp in plan.layers)
    numbers = [int(layer.name.rpartition("#")[2]) for layer in layers]
    return Layout(layers, max([before.made if before else 0, *(n + 1 for n in numbers)]))
