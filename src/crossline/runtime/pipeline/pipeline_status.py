"""How a pipeline stands, for who watches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from crossline.basics.errors import CrosslineError
from crossline.rules.ruleset import RuleSet
from crossline.runtime.sources.plan_source import SourcePlan
from crossline.runtime.state_log.offset_history import OffsetHistory


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """As a pipeline stands at one moment; asking costs no call to Java.

    ``started``: its rules are loaded and its query was started. ``batch_began_s``: since when the batch that runs does,
    on the wall clock; None: none runs. ``rules``: versions that judge until further notice, by kind. ``logged``: how
    often what happened to rules in this run. ``state_root``: where its state lies. ``refused``: how many files or
    messages, of rules, shared figures, lists and tables, are refused as they stand. ``held``: by what a batch is held,
    which is run again once a disk takes what there is to write; "": by nothing.
    """

    started: bool = False
    batch_began_s: float | None = None
    rules: Mapping[str, int] = field(default_factory=dict)
    logged: Mapping[str, int] = field(default_factory=dict)
    state_root: str = ""
    refused: int = 0
    held: str = ""


@dataclass(frozen=True, slots=True)
class SourceBacklog:
    """What waits in a source of ``stream``: ``amount`` of ``unit``; None: unknown, for the reason ``problem``."""

    stream: str
    unit: Literal["records", "bytes"]
    amount: int | None
    problem: str | None = None


def rules_by_kind(rules: RuleSet) -> dict[str, int]:
    """How many versions judge until further notice."""
    found = {"active": 0, "shadow": 0}
    for version in rules.versions:
        if version.endless and not version.ended:
            found[version.kind] += 1
    return found


def source_backlogs(sources: Sequence[SourcePlan], history: OffsetHistory) -> list[SourceBacklog]:
    """What waits in each source that knows it, behind the last finished batch. Sends requests to brokers."""
    mark = history.last()
    found: list[SourceBacklog] = []
    for number, source in enumerate(sources):
        if source.waiting is None:
            continue
        offsets = mark.offsets[number] if mark is not None and number < len(mark.offsets) else None
        try:
            found.append(SourceBacklog(source.stream, source.unit, source.waiting(offsets)))
        except (CrosslineError, OSError) as error:
            found.append(SourceBacklog(source.stream, source.unit, None, str(error)))
    return found
