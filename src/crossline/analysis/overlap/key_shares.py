"""Findings about shares of keys: of no key, of all keys, or next to a version with other keys or another stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from crossline.analysis.lint import LintFinding, RuleClaims
from crossline.basics.conditions.tree import AllOf, Leaf, Node
from crossline.basics.fields import KeyValue
from crossline.basics.share import SLOTS, keys_of, slot_of
from crossline.rules.base import Rule

KEYS_MAX = 10_000  # so many are worked out, one by one
Key = Mapping[str, KeyValue]
_PATH = ("share",)


def share_findings(rules: Sequence[RuleClaims], before: Mapping[str, Rule]) -> list[LintFinding]:
    """What is found. ``before``: by rule, the version that has the other keys, where it is known."""
    return [finding for each in rules for finding in _of(each, before.get(each.rule.rule_id))]


def _of(claims: RuleClaims, before: Rule | None) -> Iterator[LintFinding]:
    rule, keys = claims.rule, keys_of(claims.rule.share)
    if rule.share is None:
        return
    if keys == 0 and rule.status == "active":
        todo = "a share above 0%, once it is to decide again; or the next version, which takes its place"
        what = f"share {rule.share}: version {rule.version} decides about no key"
        yield _finding(rule, what, "it is judged as a shadow of all keys, for as long as it stands there", todo)
    elif keys == SLOTS and rule.status == "active":
        what = f"share {rule.share} is all keys, as no share is"
        why = "while it is paused or in shadow, also by the breaker, the version before it decides again, however old"
        yield _finding(rule, what, why, "take the share out, once no pipeline has to go back to the version before")
    elif 0 < keys < SLOTS:
        yield from _finite(claims, keys)
        yield from _beside(rule, before)


def _finite(claims: RuleClaims, keys: int) -> Iterator[LintFinding]:
    """Where the conditions leave few keys: none of them, or each, has its slot in the share."""
    rule, possible = claims.rule, possible_keys(claims)
    if not possible:
        return
    inside = sum(slot_of(rule.rule_id, key) < keys for key in possible)
    there = f"{', '.join(rule.key_of_alerts)} has {len(possible):,} value{'' if len(possible) == 1 else 's'} here"
    if inside == 0:
        what = f"share {rule.share} reaches no key: {there}, and none of their slots is in it"
        why = f"version {rule.version} decides about no key"
        yield _finding(rule, what, why, "a larger share, or a key with more values")
    elif inside == len(possible):
        what = f"share {rule.share} reaches all: {there}, and all of their slots are in it"
        why = "no key is left to the version before"
        yield _finding(rule, what, why, "a smaller share, or none; or a key with more values")


def _beside(rule: Rule, before: Rule | None) -> Iterator[LintFinding]:
    """Against the version that has the others: each key has to be one of theirs."""
    if before is None:
        return
    one, other = rule.key_of_alerts, before.key_of_alerts
    if rule.source_topic != before.source_topic:
        what = (
            f"share {rule.share} of {rule.source_topic}, and version {before.version}, which is to have the other "
            f"keys, reads {before.source_topic}"
        )
        why = "a version on another stream ends the one before it: no version decides about the other keys"
        yield _finding(rule, what, why, "give it an id of its own, or no share")
    elif one != other:
        named = [", ".join(each) or "no field" for each in (one, other)]
        what = f"share {rule.share} of keys by {named[0]}, and version {before.version}, which has the others, "
        what += f"has keys by {named[1]}"
        why = "a record has both keys: both versions may decide about it, or neither"
        yield _finding(rule, what, why, "the key of the version before; or an id of its own; or no share")


def possible_keys(claims: RuleClaims) -> list[Key]:
    """All keys that a record may have which the rule looks at, where these are few; else none.

    A field has few values where it is a boolean, or where a condition that is joined by and names them.
    """
    names = claims.rule.key_of_alerts
    values = [_values(claims, name) for name in names]
    known = [each for each in values if each]
    if len(known) < len(names) or prod(len(each) for each in known) > KEYS_MAX:
        return []
    return [dict(zip(names, each, strict=True)) for each in product(*known)]


def _values(claims: RuleClaims, name: str) -> Sequence[KeyValue]:
    """Those that a field of the key may have; none where that is not known."""
    column = claims.spec.columns.get(name)
    if column is None or claims.rule.reading.side_inputs:
        return ()
    kinds = {"string": str, "integer": int, "boolean": bool}
    wanted = kinds.get(column.kind)
    for leaf in _joined(claims.program.feed.condition.node):
        given = leaf.value if leaf.operator == "in" and isinstance(leaf.value, tuple) else (leaf.value,)
        if leaf.field != name or leaf.operator not in {"==", "in"} or wanted is None:
            continue
        fitting = tuple(each for each in given if isinstance(each, str | int) and type(each) is wanted)
        if fitting and len(fitting) == len(given):
            return tuple(dict.fromkeys(fitting))
    return (False, True) if column.kind == "boolean" else ()


def _joined(node: Node) -> Iterator[Leaf]:
    """The comparisons that every record meets."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, AllOf):
        for part in node.parts:
            yield from _joined(part)


def _finding(rule: Rule, what: str, why: str, todo: str) -> LintFinding:
    return LintFinding(rule.rule_id, "odd_share", _PATH, what, why, todo)
