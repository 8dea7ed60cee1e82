"""What a formula of a policy may name, and what these names are for the hits of one record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from crossline.basics.fields import FieldKind
from crossline.basics.formula.check import check
from crossline.basics.formula.diagnostics import Report
from crossline.basics.formula.formula import Formula
from crossline.basics.formula.tree import Compare, Constant, Membership, Name, Node, walk
from crossline.basics.texts.problems import Finding, Path, nearest, one_of
from crossline.rules.base import Action, Severity
from crossline.rules.policy.hits import DecidingHit, gravest

ACTIONS: tuple[str, ...] = get_args(Action)  # the gravest last, as are severities
SEVERITIES: tuple[str, ...] = get_args(Severity)
RULES, TAGS = "rules.", "tags."

_WORDS = {"action": ACTIONS, "severity": SEVERITIES}
_KINDS: dict[str, FieldKind] = {
    "score": "integer",
    "hits": "integer",
    "action": "string",
    "severity": "string",
    **{f"actions.{name}": "integer" for name in ACTIONS},
    **{f"severities.{name}": "integer" for name in SEVERITIES},
}


class _Names(Mapping[str, FieldKind]):
    """The fixed names, and any name behind ``rules.`` and ``tags.``: which there are changes while a policy stands."""

    def __getitem__(self, name: str) -> FieldKind:
        if name.startswith(RULES) and name != RULES:
            return "boolean"
        if name.startswith(TAGS) and name != TAGS:
            return "integer"
        return _KINDS[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*_KINDS, f"{RULES}ID", f"{TAGS}TAG"))

    def __len__(self) -> int:
        return len(_KINDS) + 2


NAMES = _Names()


def check_when(text: object, path: Path) -> Formula | list[Finding]:
    """The formula that ``text`` writes over ``NAMES``, else all that is wrong with it, at ``path``."""
    formula = check(text, NAMES, path, wanted="verdict")
    if not isinstance(formula, Formula):
        return formula
    report = Report(formula.text, path)
    for node in walk(formula.root):
        _check_words(node, report)
    return report.findings() or formula


def _check_words(node: Node, report: Report) -> None:
    """Actions and severities are texts with an order of their own, which ``<`` knows nothing of."""
    match node:
        case Compare(operands, operators):
            for left, operator, right in zip(operands, operators, operands[1:], strict=False):
                for name, other in ((left, right), (right, left)):
                    if isinstance(name, Name) and name.name in _WORDS:
                        _check_pair(name, operator, other, report)
        case Membership(Name(name), members) if name in _WORDS:
            for each in members:
                _check_word(name, each, report)


def _check_pair(name: Name, operator: str, other: Node, report: Report) -> None:
    known = _WORDS[name.name]
    if operator not in {"==", "!="}:
        hint = f"for instance {name.name} in ({', '.join(repr(each) for each in known[-2:])})"
        report.add(name.span, f"== or in, for {name.name}; as texts they are in the order of the alphabet", hint)
    elif isinstance(other, Constant):
        _check_word(name.name, other, report)


def _check_word(name: str, constant: Constant, report: Report) -> None:
    known = _WORDS[name]
    if constant.value not in known:
        expected = f"{'an' if name == 'action' else 'a'} {name}: {one_of(known)}"
        report.add(constant.span, expected, nearest(constant.value, known))


def facts(names: Sequence[str], hits: Sequence[DecidingHit], score: int) -> dict[str, int | str | bool | None]:
    """The values of ``names``; a severity is missing where there is no hit."""
    return {name: _fact(name, hits, score) for name in names}


def _fact(name: str, hits: Sequence[DecidingHit], score: int) -> int | str | bool | None:  # noqa: PLR0911 - a table
    group, _, of = name.partition(".")
    match group:
        case "score":
            return score
        case "hits":
            return len(hits)
        case "action":
            return gravest((each.action for each in hits), ACTIONS) or ACTIONS[0]
        case "severity":
            return gravest((each.severity for each in hits), SEVERITIES)
        case "actions":
            return sum(each.action == of for each in hits)
        case "severities":
            return sum(each.severity == of for each in hits)
        case "rules":
            return any(each.rule_id == of for each in hits)
    return sum(of in each.tags for each in hits)
