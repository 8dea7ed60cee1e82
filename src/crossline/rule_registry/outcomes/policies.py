"""Which policy was in force since when: an event of the rule log where a pipeline starts with another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from crossline.basics.times import FOREVER_MS
from crossline.rule_registry.events import RuleEvent
from crossline.rules.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicySpan:
    """A policy from when a pipeline started with it until one started with another, by the wall clock."""

    digest: str
    version: int
    from_ms: int
    until_ms: int
    body: dict[str, Any]

    def policy(self) -> Policy | None:
        """As it was; None where this crossline does not read it, or reads something else."""
        try:
            found = Policy.model_validate(self.body)
        except ValidationError:
            return None
        return found if found.digest == self.digest else None


def policy_events(events: Iterable[RuleEvent], policy: Policy | None, now_ms: int) -> list[RuleEvent]:
    """What a start with ``policy`` adds to a log with ``events``: nothing where that is the one of the start before."""
    if policy is None:
        return []
    last = next((each for each in reversed([*events]) if each.event == "policy_changed"), None)
    if last is not None and last.digest == policy.digest:
        return []
    return [RuleEvent("policy_changed", now_ms, version=policy.version, digest=policy.digest, body=policy.to_json())]


def policies_in(events: Iterable[RuleEvent]) -> Iterator[PolicySpan]:
    """The policies of a log, in the order in which they were in force."""
    mine = [each for each in events if each.event == "policy_changed" and each.body is not None]
    for number, each in enumerate(mine):
        until_ms = mine[number + 1].at_ms if number + 1 < len(mine) else FOREVER_MS
        yield PolicySpan(str(each.digest), each.version or 0, each.at_ms, until_ms, each.body or {})
