"""The naive twin of decisions: each record's hits, found among all hits there are, and what a policy says of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .conditions import field_value
from .duplicates import allowed_on_event_time
from .naive import Hit, NaiveResult, Standing
from .rule_versions import DEFAULTS, duration_ms, read_snapshot

# Written out, not imported: ids are a promise to other programs, so a change of the package's own must fail here.
NAMESPACE = uuid.UUID("b0a3a2d4-6f0e-5c55-8f0a-3d6f5b1f7c21")
ACTIONS = ["allow", "review", "step_up", "block"]
SEVERITIES = ["info", "low", "medium", "high", "critical"]


@dataclass(frozen=True)
class Placed:
    """What somebody holds: records with these values that came from one ingest time on and before another one."""

    hold_id: str
    key: Mapping[str, Any]
    action: str
    from_ms: int
    until_ms: int

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether it holds a record."""
        same = all(
            type(field_value(record, name)) is type(value) and field_value(record, name) == value
            for name, value in self.key.items()
        )
        return same and self.from_ms <= record["_ingest_ms"] < self.until_ms


Weights = list[Mapping[str, Any]]  # of the hits on a record: rule_id, action, score, severity, tags


@dataclass(frozen=True)
class ExpectedDecision:
    """What must stand in a decision; ``reasons``: rule, version and alert of each, and whether it stands."""

    decision_id: str
    record_id: str
    decision: str
    score: int
    reasons: tuple[tuple[str, int, str | None, bool], ...]
    ingest_ms: int


def _count(hits: Weights, name: str, value: str) -> int:
    return len([hit for hit in hits if hit[name] == value])


# The conditions of the tests' policies: the text, and its meaning in Python.
WHENS: dict[str, Callable[[Weights, int], bool]] = {
    "score >= 50": lambda _hits, score: score >= 50,
    "hits >= 2 and score < 90": lambda hits, score: len(hits) >= 2 and score < 90,
    "action == 'review'": lambda hits, _score: max(ACTIONS.index(hit["action"]) for hit in hits) == 1,
    "severity in ('high', 'critical')": lambda hits, _score: any(hit["severity"] in SEVERITIES[3:] for hit in hits),
    "actions.review + actions.step_up >= 2": lambda hits, _score: (
        _count(hits, "action", "review") + _count(hits, "action", "step_up") >= 2
    ),
    "severities.low == 0": lambda hits, _score: _count(hits, "severity", "low") == 0,
    "rules.r0 and not rules.r1": lambda hits, _score: (
        _count(hits, "rule_id", "r0") > 0 and _count(hits, "rule_id", "r1") == 0
    ),
    "tags.cash > tags.web": lambda hits, _score: (
        len([hit for hit in hits if "cash" in hit["tags"]]) > len([hit for hit in hits if "web" in hit["tags"]])
    ),
    "tags.nobody == 0 and score > 10": lambda _hits, score: score > 10,
    "rules.nobody": lambda _hits, _score: False,
}


def naive_decision(policy: Mapping[str, Any], hits: Weights) -> tuple[str, int]:
    """The decision on a record with ``hits``, and its score, by a policy as in YAML."""
    if not hits:
        return "allow", 0
    scores = [hit["score"] for hit in hits]
    score = max(scores) if policy.get("score") == "max" else sum(scores)
    for branch in policy.get("decide", []):
        if WHENS[branch["when"]](hits, score):
            return branch["decision"], score
    if policy.get("bands"):
        text = "allow"
        for band in sorted(policy["bands"], key=lambda band: band["from"]):
            if score >= band["from"]:
                text = band["decision"]
        return text, score
    return max((hit["action"] for hit in hits), key=ACTIONS.index), score


def naive_decisions(
    policy: Mapping[str, Any],
    bodies: Sequence[Mapping[str, Any]],
    result: NaiveResult,
    records: Sequence[Mapping[str, Any]],
    defaults: Mapping[str, str],
    *,
    every: bool = False,
    held: Sequence[Sequence[Hit]] = (),
    placed: Sequence[Placed] = (),
) -> list[ExpectedDecision]:
    """The decisions on ``records``, in their order: of those with hits that count, or of ``every`` one.

    ``held``: for each record the alerts of before that hold it; a rule that hits it itself is a reason once.
    ``placed``: what people hold besides: a reason each, and the decision is no less grave than any of them asks.
    """
    standing = {**DEFAULTS, **defaults}
    snapshot = read_snapshot(bodies, defaults)
    body_of = {(body["rule_id"], body["version"]): body for body in bodies}
    found = []
    for position, record in enumerate(records):
        lateness_ms = record["_ingest_ms"] - record["_event_ms"]
        own_ms = duration_ms(standing["allowed_lateness"])
        taken_ms = max(allowed_on_event_time(snapshot, record["_ingest_ms"], own_ms))
        in_time = lateness_ms <= duration_ms(standing["watermark_delay"]) and lateness_ms <= taken_ms
        if position in result.duplicates or not in_time:
            continue
        hits = [
            (hit, _weights(body_of[hit.rule_id, hit.version]))
            for hit in (*result.hits, *result.standing)
            if _counts(hit, position, body_of)
        ]
        own = {hit.rule_id for hit, _ in hits}
        held_here = [hit for hit in (held[position] if held else ()) if hit.rule_id not in own]
        hits += [(hit, _weights(body_of[hit.rule_id, hit.version])) for hit in held_here]
        asked = [each for each in placed if each.holds(record)]
        hits += [
            (_reason_of(each), _weights({"rule_id": f"hold:{each.hold_id}", "action": each.action})) for each in asked
        ]
        if hits or every:
            hits.sort(key=lambda each: (-ACTIONS.index(each[1]["action"]), -each[1]["score"], each[0].rule_id))
            shown, score = naive_decision(policy, [weights for _, weights in hits])
            shown = max([shown, *(each.action for each in asked)], key=ACTIONS.index)
            name = f"{policy['version']}\x1fpayments\x1f{record['_id']}"
            reasons = tuple((hit.rule_id, hit.version, hit.alert_id, isinstance(hit, Standing)) for hit, _ in hits)
            reported = ExpectedDecision(
                str(uuid.uuid5(NAMESPACE, name)), record["_id"], shown, score, reasons, record["_ingest_ms"]
            )
            found.append(reported)
    return found


def _reason_of(placed: Placed) -> Standing:
    return Standing(f"hold:{placed.hold_id}", 1, -1, None, "alert", beyond=False)


def _counts(hit: Hit | Standing, position: int, body_of: Mapping[tuple[str, int], Mapping[str, Any]]) -> bool:
    delivered = body_of[hit.rule_id, hit.version].get("emit_to_sink", True)
    # What is known long after its record decides nothing about it.
    at_once = isinstance(hit, Standing) or hit.known_ms is None
    return hit.position == position and hit.kind == "alert" and delivered and at_once


def _weights(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": "allow", "score": 0, "severity": "medium", "tags": (), **body}
