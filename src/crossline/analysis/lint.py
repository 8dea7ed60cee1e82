"""Lint: rules that never or always hold, contradict themselves, or repeat another rule.

A finding is true for any records; uncertain findings are not reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, get_args

from crossline.analysis.claims import All, Claim, Denied, Opaque, Present, Test
from crossline.analysis.conditions import claim_of, fields_of
from crossline.analysis.formulas import claim_of_formula
from crossline.analysis.ranges import figure_values
from crossline.analysis.satisfiability import Known, ValueRange, certain, impossible
from crossline.basics.conditions.condition import Condition
from crossline.basics.conditions.tree import AllOf, AnyOf, Leaf, Node
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Path
from crossline.basics.times import format_duration
from crossline.programs.program import Figure, FormulaPredicate, Program
from crossline.rules.base import Defaults, Rule
from crossline.rules.predicate_rule import PredicateRule

Kind = Literal[
    "never_true",
    "always_true",
    "contradictory",
    "subsumed",
    "short_window",
    "unbounded_key",
    "unread_figure",
    "decides_rarely",
    "odd_share",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
_LENGTH_MAX = 160  # characters of a condition that a finding repeats


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding: ``what`` was found, ``why`` it matters, what ``todo``; ``path`` from the top of the rule."""

    rule_id: str
    kind: Kind
    path: Path
    what: str
    why: str
    todo: str


@dataclass(frozen=True, slots=True)
class RuleClaims:
    """The claims of a rule: which records enter, and when they are hits (None: always)."""

    rule: Rule
    program: Program
    spec: StreamSpec
    known: Known
    enters: Claim
    hits: Claim | None


LINE = "figure of the line"  # the name of the one figure of a comparison; no field has such a name


def rule_claims(rule: Rule, spec: StreamSpec, defaults: Defaults) -> RuleClaims:
    """The claims of a rule that fits its stream."""
    program = rule.program(spec, defaults)
    fields = fields_of(spec)
    there = [Present(name) for name in program.feed.key_fields]
    known: dict[str, ValueRange] = dict(fields)
    hits: Claim | None = None
    if (line := program.comparison) is not None:
        (figure,) = program.figures
        there += [Present(figure.column)] if figure.column is not None else []
        known[LINE] = figure_values(program, figure, spec.columns, fields)
        hits = Test(LINE, line.operator, line.threshold, "number")
    elif program.sequence is not None:
        hits = Opaque(f"the steps of {rule.rule_id}")  # of what follows what nothing is claimed
    elif program.absence is not None:
        hits = Opaque(f"the absences of {rule.rule_id}")
    elif (verdict := program.formula) is not None:
        for name, each in zip(verdict.names, program.figures, strict=True):
            known[name] = figure_values(program, each, spec.columns, fields)
        for cross_key in program.cross_key:  # to a record that has not their key, none
            for name, each in cross_key.figures.items():
                known[name] = replace(figure_values(program, each, spec.columns, fields), missing=True)
        there = [each for each in there if each.name not in verdict.names]
        enters = All((_fields_only(program, spec, verdict), *there))
        # Of a score nothing is claimed: it is the model's, and that of another model is another.
        score = Opaque(f"the score of {rule.rule_id}") if verdict.scored is not None else None
        return RuleClaims(rule, program, spec, known, enters, score or claim_of_formula(verdict.when.root, known))
    return RuleClaims(
        rule, program, spec, known, All((claim_of(program.feed.condition.node, spec.columns), *there)), hits
    )


def _fields_only(program: Program, spec: StreamSpec, verdict: FormulaPredicate) -> Claim:
    """The conditions, of which nothing is known where a figure is called as one of their fields."""
    shadowed = set(verdict.names) & set(program.feed.condition.fields())
    condition = program.feed.condition
    return Opaque(condition.canonical) if shadowed else claim_of(condition.node, spec.columns)


def lint_rule(rule: Rule, spec: StreamSpec, defaults: Defaults) -> list[LintFinding]:
    """All findings of a rule by itself."""
    claims = rule_claims(rule, spec, defaults)
    return [
        *_truth(claims),
        *_waits(claims),
        *_figures(claims),
        *_windows(claims, defaults),
        *_keys(claims),
        *unread_figures(rule),
        *_rarely(claims),
    ]


def unread_figures(rule: Rule) -> Iterator[LintFinding]:
    """Figures that no formula reads; they are not computed."""
    for name in rule.unread_figures() if isinstance(rule, PredicateRule) else ():
        what, why = f"figure {name} is read by no formula", "it is not computed, and no alert shows it"
        yield LintFinding(rule.rule_id, "unread_figure", ("figures", name), what, why, "remove it, or name it in when")


def _truth(claims: RuleClaims) -> Iterator[LintFinding]:
    """Whether it can be true, and whether it can be false."""
    rule, program = claims.rule, claims.program
    if impossible(claims.enters, claims.known):
        yield _contradiction(rule, program.feed.condition, claims.spec, claims, rule.place_of("conditions"))
        return
    if claims.hits is None and program.feed.condition.canonical and certain(claims.enters, claims.known):
        yield _always(rule, "conditions", f"{_short(program.feed.condition)} holds for every record")
        return
    yield from _parts(rule, program.feed.condition, claims)
    if claims.hits is None:
        return
    if impossible(All((claims.enters, claims.hits)), claims.known):
        why = "it judges every record that it looks at, and never fires"
        what = f"{_line(claims)} can never hold"
        yield LintFinding(rule.rule_id, "never_true", rule.place_of("when"), what, why, "mend the line, or retire it")
    elif impossible(All((claims.enters, Denied(claims.hits))), claims.known):
        yield _always(rule, "when", f"{_line(claims)} holds at every record that the rule looks at")


def _always(rule: Rule, part: str, what: str) -> LintFinding:
    why = "it separates no record from the others"
    return LintFinding(
        rule.rule_id, "always_true", rule.place_of(part), what, why, "draw a line that some do not cross"
    )


def _line(claims: RuleClaims) -> str:
    """The comparison of the figures as text."""
    formula, verdict = claims.program.formula, claims.program.comparison
    if formula is not None:
        return " ".join(formula.when.text.split())
    assert verdict is not None  # noqa: S101 - only asked where something is known of one
    figure, values = claims.program.figures[0], claims.known[LINE]
    ends = [f"at least {values.low:g}"] if values.low > -(2**63) else []
    ends += [f"at most {values.high:g}"] if values.high < 2**63 - 1 else []
    least = f", which is {' and '.join(ends)}," if ends else ""
    named = figure.aggregate if figure.column is None else f"{figure.aggregate} of {figure.column}"
    return f"{named}{least} {verdict.operator} {verdict.threshold:g}"


def _contradiction(rule: Rule, condition: Condition, spec: StreamSpec, claims: RuleClaims, path: Path) -> LintFinding:
    """The fewest conditions of those joined by and that cannot hold together."""
    node = condition.node
    parts: Sequence[Node] = node.parts if isinstance(node, AllOf) else (node,)
    there = All(tuple(Present(name) for name in claims.program.feed.key_fields))
    found: tuple[Node, ...] = tuple(parts)
    for count in (1, 2):
        for some in combinations(parts, count):
            if impossible(All(tuple(claim_of(each, spec.columns) for each in some)), claims.known):
                found = some
                break
        else:
            continue
        break
    alone = impossible(All(tuple(claim_of(each, spec.columns) for each in found)), claims.known)
    text = " and ".join(_short(Condition(each)) for each in found)
    what = f"{text} cannot hold" + (" together" if len(found) > 1 else "")
    if not alone and there.parts:
        what += f" where {', '.join(claims.program.feed.key_fields)} is there, by which the rule groups"
    last = found[-1] if found else node
    at = last.path if isinstance(last, Leaf) and last.path else path
    kind: Kind = "contradictory" if len(found) > 1 or not alone else "never_true"
    return LintFinding(rule.rule_id, kind, at, what, "no record passes", "mend one of the conditions, or take it out")


def _parts(rule: Rule, condition: Condition, claims: RuleClaims) -> Iterator[LintFinding]:
    """Parts of conditions that decide nothing: those of an any that cannot hold, those joined by and that always do."""
    for node, always_matters in _places(condition.node, under_and=True):
        claim = claim_of(node, claims.spec.columns)
        text = _short(Condition(node))
        path = node.path if isinstance(node, Leaf) and node.path else rule.place_of("conditions")
        if always_matters and certain(claim, claims.known):
            what, why = f"{text} holds for every record", "it keeps no record out, which it seems meant to"
            yield LintFinding(rule.rule_id, "always_true", path, what, why, "mend it, or take it out")
        elif not always_matters and impossible(claim, claims.known):
            what, why = f"{text} cannot hold", "this way of passing is none"
            yield LintFinding(rule.rule_id, "contradictory", path, what, why, "mend it, or take it out")


def _places(node: Node, *, under_and: bool) -> Iterator[tuple[Node, bool]]:
    """The parts of ``node``, and whether each is joined by and."""
    if isinstance(node, AllOf) and node.parts:
        for part in node.parts:
            yield from _places(part, under_and=True)
    elif isinstance(node, AnyOf):
        for part in node.parts:
            yield (part, False)
    elif under_and and isinstance(node, Leaf):
        yield (node, True)


def _waits(claims: RuleClaims) -> Iterator[LintFinding]:
    """Of an absence: that nothing waits, or that nothing can answer."""
    rule, verdict, fields = claims.rule, claims.program.absence, fields_of(claims.spec)
    if verdict is None or impossible(claims.enters, claims.known):
        return
    waiting, answer = (feed.condition for feed in verdict.feeds)
    if impossible(claim_of(waiting.node, claims.spec.columns), fields):
        what, todo = f"{_short(waiting)} cannot hold", "mend it, or retire the rule"
        yield LintFinding(rule.rule_id, "never_true", ("after",), what, "no record waits: it never fires", todo)
    elif verdict.expect.stream == verdict.after.stream and impossible(
        claim_of(answer.node, claims.spec.columns), fields
    ):
        what = f"{_short(answer)} cannot hold"
        yield LintFinding(rule.rule_id, "always_true", ("expect",), what, "it fires at each that waits", "mend it")


def _figures(claims: RuleClaims) -> Iterator[LintFinding]:
    """Figures with conditions of their own that no record passes."""
    rule, program = claims.rule, claims.program
    fields = fields_of(claims.spec)
    for name, figure in _named(program):
        own = [figure.streak_of] if figure.streak_of is not None else []
        own += [figure.feed.condition] if figure.feed.condition != program.feed.condition else []
        for condition in own if figure.feed.stream == program.feed.stream else ():
            if impossible(claim_of(condition.node, claims.spec.columns), fields):
                what = f"{_short(condition)} cannot hold, so that {name or 'the figure'} is of no record"
                path = rule.place_of("conditions", name)
                why, todo = "the figure is the same at every record", "mend its conditions, or take the figure out"
                yield LintFinding(rule.rule_id, "contradictory", path, what, why, todo)


def _named(program: Program) -> list[tuple[str, Figure]]:
    return list(program.named.items()) or [("", figure) for figure in program.figures]


def _windows(claims: RuleClaims, defaults: Defaults) -> Iterator[LintFinding]:
    """Windows that are shorter than records may be out of order: one finding a rule, of the shortest."""
    rule = claims.rule
    delay_ms = defaults.watermark_delay_ms if rule.watermark_delay is None else rule.watermark_delay
    timed = [each for each in _named(claims.program) if each[1].feed.time_mode == "event_time"]
    if not timed:
        return
    name, figure = min(timed, key=lambda each: each[1].window.length_ms)
    length_ms = figure.window.length_ms
    if length_ms >= delay_ms:
        return
    whose = "the pipeline's" if rule.watermark_delay is None else "the rule's"
    what = (
        f"a window of {format_duration(length_ms)} is shorter than {format_duration(delay_ms)}, by which records may "
        f"be late and still on time ({whose} watermark_delay)"
    )
    why = (
        "where records of a key come in another order than they happened, each is judged with those that came before "
        "it, and a window that holds all of them may never be seen"
    )
    todo = "a longer window, a watermark_delay that is what the stream does, or time_mode: processing_time"
    yield LintFinding(rule.rule_id, "short_window", rule.place_of("window", name), what, why, todo)


def _keys(claims: RuleClaims) -> Iterator[LintFinding]:
    """A key that every record has for itself."""
    spec, program = claims.spec, claims.program
    looks_back = bool(program.figures) or program.absence is not None
    if looks_back and spec.id in program.feed.key_fields:
        what = f"the key has {spec.id}, the id of the record"
        yield unbounded(claims.rule, what, "each record is a key of its own")


def _rarely(claims: RuleClaims) -> Iterator[LintFinding]:
    """An action that decides about one record of many, or about none.

    Rules of windows and formulas decide at every record at which they hold, rules of single records at every hit. A
    sequence decides only at the record that completes it. An absence is known only after the decision about its record.
    """
    rule, program = claims.rule, claims.program
    if rule.action == "allow" or rule.hold is not None or not program.emission.delivered:
        return
    if program.absence is not None:
        what = f"action {rule.action}, of an absence, which is known long after its record was decided about"
        why = "its alerts decide nothing"
    elif program.sequence is not None:
        what = f"action {rule.action}, of a sequence, which decides about the record that completes it"
        why = "what the key does next is decided without it"
        if program.emission.cooldown_ms:
            why += ", and within the cooldown a sequence that is completed again raises no alert"
    else:
        return
    todo = "a hold, such as hold: 30m, by which each alert decides about the key's records to come; or action: allow"
    if not program.feed.key_fields:
        todo = "a group_by and a hold, by which each alert decides about the key's records to come; or action: allow"
    yield LintFinding(rule.rule_id, "decides_rarely", ("action",), what, why, todo)


def unbounded(rule: Rule, what: str, why: str) -> LintFinding:
    """A key space that grows with every record."""
    more = f"{why}: a window never holds more than one, and what is kept of keys grows with the records"
    todo = "group by what records have in common"
    return LintFinding(rule.rule_id, "unbounded_key", rule.place_of("group_by"), what, more, todo)


def _short(condition: Condition) -> str:
    text = condition.text
    return text if len(text) <= _LENGTH_MAX else f"{text[: _LENGTH_MAX - 1]}…"
