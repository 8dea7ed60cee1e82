"""What is in force when records are judged, known by a digest: rules, policy, lists, models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from crossline.evaluate.decisions.decision import RulesInForce
from crossline.rules.base import Rule
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.serve.decisions.values import Basis


class Bases:
    """The bases of a plan snapshot, by stream and by the digest of the rules in force."""

    def __init__(self, snapshot: PlanSnapshot) -> None:
        self._snapshot = snapshot
        self._lists = {name: each.digest for name, each in snapshot.lists.items()}
        self._in_force: dict[str, RulesInForce] = {}
        self._known: dict[tuple[str, str], Basis] = {}

    def of(self, decision: Mapping[str, Any]) -> Basis:
        """What ``decision`` was made by."""
        stream, rules_digest = decision["stream"], decision["rules_digest"]
        found = self._known.get((stream, rules_digest))
        if found is None:
            found = self._known[stream, rules_digest] = self._made(stream, rules_digest)
        return found

    def _made(self, stream: str, rules_digest: str) -> Basis:
        in_force = self._in_force.get(stream)
        if in_force is None:
            in_force = self._in_force[stream] = RulesInForce(self._snapshot.rules, stream)
        at_ms = next(ms for ms in in_force.edges if in_force.digest(ms) == rules_digest)
        rules = sorted(in_force.at(at_ms), key=lambda rule: (rule.rule_id, rule.version))
        lines = [{"rule_id": r.rule_id, "version": r.version, "digest": r.body_digest()} for r in rules]
        policy = self._snapshot.deciding.policy if self._snapshot.deciding is not None else None
        parts: dict[str, Any] = {
            "policy_version": policy.version if policy is not None else 0,
            "policy_digest": policy.digest if policy is not None else "",
            "rules_digest": rules_digest,
            "rules": lines,
            "lists": self._lists,
            "models": models_of(rules),
        }
        return Basis(digest=_digest(parts), **parts)


def models_of(rules: Iterable[Rule]) -> dict[str, str]:
    """By name, the digests of the models that rules score with."""
    return dict(model for rule in rules if (model := _model_of(rule)) is not None)


def _model_of(rule: Rule) -> tuple[str, str] | None:
    """Name and digest of the model that a rule scores with."""
    name, digest = getattr(rule, "model", None), getattr(rule, "model_digest", None)
    return (name, digest) if isinstance(name, str) and isinstance(digest, str) else None


def _digest(value: Any) -> str:
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
