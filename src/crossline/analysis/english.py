"""Describes a rule in plain English, from its program. It is independent of rule types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from crossline.basics.streams.inputs import SideInput
from crossline.basics.times import format_duration
from crossline.programs.program import (
    AbsencePredicate,
    Comparison,
    Feed,
    Figure,
    FormulaPredicate,
    Program,
    SequencePredicate,
    Window,
)
from crossline.programs.registry import declared
from crossline.rules.base import Rule
from crossline.rules.predicate_rule import PredicateRule
from crossline.rules.sentence import noun, number

_STATUS = {
    "draft": "It is a draft: it judges nothing.",
    "shadow": "It is a shadow rule: its alerts are recorded, and neither delivered nor decided on.",
    "paused": "It is paused: it judges nothing.",
    "retired": "It is retired: it judges nothing any more.",
}


def describe_rule(rule: Rule, program: Program) -> str:
    """The rule in English sentences."""
    return " ".join(_sentences(rule, program))


def _sentences(rule: Rule, program: Program) -> Iterator[str]:
    one = noun(program.feed.stream, one=True)
    yield f"It looks at each {one}{_where(program.feed)}."
    side_inputs = {side_input.name: side_input for side_input in rule.reading.side_inputs}
    if program.verdict is None:
        of = f", its alert by {_and(program.entity)} (without a key where it lacks one)" if program.entity else ""
        yield f"Each of them is a hit{of}."
    elif program.comparison is not None:
        figure = describe_figure(program.figures[0], program.feed, {})
        yield f"It fires where {figure} is {_line(program.comparison)}, {_emitted(program)}."
    elif program.sequence is not None:
        yield from _ordered(program, program.sequence, side_inputs)
    elif program.absence is not None:
        yield from _absent(program, program.absence, side_inputs)
    elif program.formula is not None:
        yield from _formed(rule, program, program.formula, side_inputs)
    else:
        figures = ", ".join(_figures(program, program.verdict.figure_names, side_inputs))
        yield f"It computes for each record {figures}; nothing fires."
    remark = rule.remark()
    if remark:
        yield remark
    if rule.timestamp_field is not None and program.feed.time_mode == "event_time":
        yield f"Its clock is {rule.timestamp_field}."
    yield from _times(program, one)
    if rule.hold is not None:
        key, lasts = _and(rule.key_of_alerts), format_duration(rule.hold)
        yield (
            f"Under a policy each alert holds its {key} for {lasts}: what comes after it takes the action "
            f"{rule.action}, until it is retracted or released."
        )
    if not program.emission.delivered:
        yield "Its alerts are recorded, and no sink gets them."
    if rule.status in _STATUS:
        yield _STATUS[rule.status]
    elif rule.share is not None:
        key = _and(rule.key_of_alerts)
        yield (
            f"It decides about {rule.share} of {key}, by a hash of it; the others it judges as a shadow rule, and the "
            "version before goes on for them."
        )


def _figures(program: Program, names: Sequence[str], side_inputs: Mapping[str, SideInput]) -> list[str]:
    return [
        f"{name} is {describe_figure(each, program.feed, side_inputs)}"
        for name, each in zip(names, program.figures, strict=True)
    ]


def _formed(
    rule: Rule, program: Program, verdict: FormulaPredicate, side_inputs: Mapping[str, SideInput]
) -> Iterator[str]:
    asked = rule.fires_where() if isinstance(rule, PredicateRule) else None
    if asked is not None:
        yield f"It fires where {asked}, {_emitted(program)}."
        return
    figures = _figures(program, verdict.names, side_inputs)
    for cross_key in program.cross_key:
        met = {side_input.name: side_input for side_input in cross_key.reading.side_inputs}
        figures += _figures(cross_key.program, tuple(cross_key.figures), met)
    yield f"{'; '.join(figures)}."
    yield f"It fires where {' '.join(verdict.when.text.split())}, {_emitted(program)}."


def _ordered(program: Program, verdict: SequencePredicate, side_inputs: Mapping[str, SideInput]) -> Iterator[str]:
    def taken_by(feed: Feed) -> str:
        side_input = side_inputs.get(feed.stream)
        return f"{noun(feed.stream if side_input is None else side_input.source)}{_where(feed)}"

    steps = [
        f"{step.name}{f' {step.times} times' if step.times > 1 else ''} ({taken_by(step.feed)})"
        for step in verdict.steps
    ]
    within = format_duration(verdict.within_ms)
    yield f"It fires where these follow each other within {within}, {_emitted(program)}: {', then '.join(steps)}."
    if verdict.strict:
        yield "No other of its records may come in between."
    if verdict.until is not None:
        yield f"What is under way ends at {noun(verdict.until.stream)}{_where(verdict.until)}."


def _absent(program: Program, verdict: AbsencePredicate, side_inputs: Mapping[str, SideInput]) -> Iterator[str]:
    one, key = noun(program.feed.stream, one=True), program.feed.key_fields
    by, side_input = f" with the same {_and(key)}" if key else "", side_inputs.get(verdict.expect.stream)
    other = "one" if side_input is None else f"a {noun(side_input.source, one=True)}"
    same = (
        by if side_input is None else f" with the same {_and([_key(name, side_input) for name in key])}" if key else ""
    )
    expect = _where(verdict.expect)
    yield (
        f"It fires at each {one} where {verdict.after.condition.text} that is not followed by {other}{same}{expect} "
        f"within {format_duration(verdict.within_ms)}."
    )
    grace_ms, cooldown_ms = program.feed.allowed_lateness_ms or 0, program.emission.cooldown_ms
    later = f" and another {format_duration(grace_ms)}, for what comes late" if grace_ms else ""
    yield f"The rule decides that once the ingest times of the stream have passed that time{later}."
    if cooldown_ms:
        yield f"After an alert there is none{by} for {format_duration(cooldown_ms)}."


def describe_figure(figure: Figure, judged: Feed, side_inputs: Mapping[str, SideInput]) -> str:
    """``the number of payments where status == declined in the last 10 min``; ``judged``: the rule's own feed.

    ``side_inputs``: by name, the records of other streams that figures may be of.
    """
    feed = figure.feed
    side_input = side_inputs.get(feed.stream)
    same = feed.condition == judged.condition and side_input is None
    records = noun(feed.stream if side_input is None else side_input.source) + ("" if same else _where(feed))
    if same and feed.condition.canonical:
        records = f"such {records}"
    keys = [_key(name, side_input) for name in feed.key_fields]
    by = f" with the same {_and(keys)}" if keys else ""
    # Of a rule that judges the hits of several, a figure of one of these has the record itself only where it is one.
    own = feed.stream == judged.stream
    return f"{_aggregate(figure, records, own=own)}{by} {_window(figure.window, own=own)}"


def _key(name: str, side_input: SideInput | None) -> str:
    there = name if side_input is None else side_input.there(name)
    return name if there == name else f"{name} (there {there})"


def _aggregate(figure: Figure, records: str, *, own: bool) -> str:
    return declared(figure.aggregate).words.phrase.format(
        field=figure.column,
        records=records,
        last_of="one before among" if own else "last of",
        meets=figure.streak_of.text if figure.streak_of is not None else "",
        rank=f"{figure.rank:g}",
        half_life=format_duration(figure.half_life_ms),
    )


def _window(window: Window, *, own: bool) -> str:
    ends = {"(]": "", "[]": "both ends", "[)": "without its end"}[window.bounds]
    itself = "itself included" if window.include_current else "itself left out"
    itself = itself if own and not window.delay_ms else ""
    delayed = f"as of {format_duration(window.delay_ms)} before" if window.delay_ms else ""
    panes = f"beginning with a pane of {format_duration(window.resolution_ms)}" if window.resolution_ms else ""
    notes = ", ".join(filter(None, (ends, itself, delayed, panes)))
    return f"in the last {format_duration(window.length_ms)}{f' ({notes})' if notes else ''}"


def _where(feed: Feed) -> str:
    return f" where {feed.condition.text}" if feed.condition.canonical else ""


def _line(verdict: Comparison) -> str:
    return f"{verdict.operator} {number(verdict.threshold)}"


def _emitted(program: Program) -> str:
    emission = program.emission
    same = f"the same {_and(program.feed.key_fields)}" if program.feed.key_fields else "the whole stream"
    how = "at every record where that holds" if emission.every else f"when that begins to hold for {same}"
    if emission.cooldown_ms:
        how += f", and then not again for {same} within {format_duration(emission.cooldown_ms)}"
    return how


def _times(program: Program, one: str) -> Iterator[str]:
    feed = program.feed
    if feed.time_mode == "processing_time":
        yield "Its clock is ingest time."
    bounds = [ms for ms in (feed.allowed_lateness_ms, program.judge_lateness_ms) if ms is not None]
    if feed.allowed_lateness_ms is not None:
        yield f"A {one} that is more than {format_duration(min(bounds))} late is not judged."
    others = program.figures or program.absence is not None
    if program.judge_lateness_ms is not None and feed.allowed_lateness_ms is not None and others:
        yield f"Up to {format_duration(feed.allowed_lateness_ms)} late it still counts for others."


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
