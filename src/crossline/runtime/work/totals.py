"""What a run has done so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from crossline.evaluate.alerts.alert_lines import rule_ids
from crossline.io.sinks.decisions import counted
from crossline.io.sinks.delivery import Delivery

STORED = "from_lake"  # the figure of a batch whose records came from the lake, since topics had deleted them
AHEAD = "ahead"  # the figure of a batch whose records were taken in ahead
RAN = "ran"  # the figure of a batch with the runner that ran it
# Beside Spark, whose query keeps its offsets and commits; as one of Spark's tasks; as a job of stages with shuffles.
IN_PROCESS, ONE_TASK, STAGES = WAYS = ("in_process", "one_task", "stages")


@dataclass(slots=True)
class Totals:
    """What a run has done so far.

    ``dead_first``: by reason, where the first dead letter was and what was wrong with it. ``first_s`` to ``ended_s``:
    from the start of the first batch to the end of the last. ``after_ms``: what the last batch spent in the driver once
    its outcome was there. ``left``: what a drained source had and is in no batch. ``share``: how much of all is done, 0
    to 1, where that is known. ``missed``: by table, records it had no row for. ``without_context``: by rule version,
    records that never got the context that they are held against. ``cost_ms``: by rule version, processor time of
    judging. ``waiting``: by stream, records in its topics at the end. ``ran``: of a pipeline, batches by the way in
    which they ran (``WAYS``). ``refused``: what of rules, shared figures, lists and tables is refused at the end, as
    events of the rule log.
    """

    batches: int = 0
    ran: dict[str, int] = field(default_factory=dict)
    records: int = 0
    alerts: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    dead_first: dict[str, str] = field(default_factory=dict)
    late: int = 0
    decisions: dict[str, int] = field(default_factory=dict)
    started_s: float = field(default_factory=time.monotonic)
    first_s: float = 0.0
    ended_s: float = 0.0
    after_ms: dict[str, float] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    share: float | None = None
    missed: dict[str, int] = field(default_factory=dict)
    without_context: dict[str, int] = field(default_factory=dict)
    cost_ms: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    refused: list[dict[str, Any]] = field(default_factory=list)

    @property
    def costliest(self) -> list[tuple[str, float]]:
        """Rule versions with their ``cost_ms``, the costliest first."""
        return sorted(self.cost_ms.items(), key=lambda each: (-each[1], each[0]))

    def cost(self, cost_ms: Mapping[str, float]) -> None:
        """A batch cost so much, by rule version; what is of no rule has no name."""
        for rule, ms in cost_ms.items():
            if rule:
                self.cost_ms[rule] = self.cost_ms.get(rule, 0.0) + ms

    @property
    def read_count(self) -> int:
        """Records judged or refused."""
        return self.records + sum(self.dead.values())

    def add(self, delivery: Delivery) -> None:
        """A batch was delivered."""
        self.batches += 1
        way = delivery.figures.get(RAN)
        if way is not None:
            self.ran[way] = self.ran.get(way, 0) + 1
        self.ended_s = time.monotonic()
        self.records += delivery.figures["records"]
        self.late += len(delivery.late)
        for table, count in delivery.figures.get("missed", {}).items():
            self.missed[table] = self.missed.get(table, 0) + count
        for rule, count in delivery.figures.get("without_context", {}).items():
            self.without_context[rule] = self.without_context.get(rule, 0) + count
        for rule_id, count in Counter(rule_ids(delivery.alerts)).items():
            self.alerts[rule_id] = self.alerts.get(rule_id, 0) + count
        for word, count in counted(delivery.decisions).items():
            self.decisions[word] = self.decisions.get(word, 0) + count
        for letter in delivery.dead:
            self.dead[letter.reason] = self.dead.get(letter.reason, 0) + 1
            self.dead_first.setdefault(letter.reason, f"{letter.partition} at {letter.offset}: {letter.detail}")
