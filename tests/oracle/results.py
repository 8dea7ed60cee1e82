"""What the naive twin finds, and what it remembers while it looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Key = dict[str, Any]


@dataclass(frozen=True)
class Hit:
    """``known_ms``: of an absence, the first instant of the clock at which it is one.

    ``value`` and the window's ends are None for a threshold rule, which has no window and rests on its record.
    """

    alert_id: str
    rule_id: str
    version: int
    key: Key
    record_id: str
    position: int
    kind: str
    value: float | int | None
    count: int
    window_start_ms: int | None
    window_end_ms: int | None
    evidence: tuple[str, ...]
    figures: Mapping[str, tuple[Any, int]] = field(default_factory=dict)  # value, and records in the window
    fields: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[tuple[str, tuple[str, ...]], ...] = ()
    known_ms: int | None = None
    times: tuple[int, int, int] | None = None  # of what it is at, where that is a hit: event, ingest, reached


@dataclass(frozen=True)
class Standing:
    """Where a rule version is satisfied and emits nothing; ``alert_id``: of what it emitted for the key last.

    ``beyond``: that lies further back than the cooldown of the rule and its windows over its own key.
    """

    rule_id: str
    version: int
    position: int
    alert_id: str | None
    kind: str
    beyond: bool


@dataclass
class NaiveResult:
    """``duplicates`` and ``late`` are positions in the records given, ascending."""

    hits: list[Hit] = field(default_factory=list)
    standing: list[Standing] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


@dataclass
class Memory:
    """What the text says is remembered of a rule version and key: its last judged record, and its last emission."""

    satisfied: bool = False
    judged_clock_ms: int = 0
    emitted_clock_ms: int | None = None
    stands: bool = False  # at the record that was judged last: satisfied, and nothing emitted
    alert_id: str | None = None
