"""The analyst's desk: what queues show and what people do with cases, over the store of labels and cases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from crossline.basics.times import instant_text
from crossline.io.sinks.base import wall_clock_ms
from crossline.serve.cases import rows
from crossline.serve.cases.actions import bulk as many
from crossline.serve.cases.actions import case_state
from crossline.serve.cases.actions.execution import do
from crossline.serve.cases.actions.undo import undo
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.linking import LINKER
from crossline.serve.cases.queue import case_search, queries
from crossline.serve.cases.queue.filters import VIEWS, QueueFilter
from crossline.serve.cases.queue.pages import Queue, QueueResult

NEAR_MAX = 20
EVENTS_MAX = 500
LIFE_BITS = 62
WOKEN_AT_ONCE = 500


class CaseService:
    """Queue, acts, similar and linked cases. From any thread.

    Args:
        cases: The store.
        clock_ms: The wall clock, in epoch milliseconds.
        on_change: Called after each action that changed a case.
    """

    def __init__(
        self, cases: Cases, *, clock_ms: Callable[[], int] = wall_clock_ms, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self.cases = cases
        self._clock_ms = clock_ms
        self._on_change = on_change
        self.queue = Queue(cases.file)

    @property
    def file(self) -> CaseFile:
        """Where all of it is."""
        return self.cases.file

    def page(
        self, wanted: QueueFilter, who: str, sort: str = "newest", place: Sequence[Any] | None = None, limit: int = 50
    ) -> QueueResult:
        """A page of the queue. Raises NotTakenError for a filter that is none."""
        wanted.checked()
        self.wake()
        return self.queue.page(wanted, who, sort, place, limit)

    def counts(self, who: str, filters: dict[str, QueueFilter] | None = None) -> dict[str, Any]:
        """How many cases each view has, or each of ``filters``, for the caller."""
        self.wake()
        wanted = filters or {name: QueueFilter(view=name) for name in VIEWS}
        return {name: self.queue.count(each.checked(), who) for name, each in wanted.items()}

    def case(self, case_id: str) -> dict[str, Any]:
        """A case whole: alerts, notes, what became of it; of one that was merged into which. Raises NoSuchCaseError."""
        self.wake()
        with self.file.reading():
            seq = rows.seq_of(self.file, case_id)
            (found,) = queries.listed(self.file, [seq])
            parts = queries.listed(self.file, queries.merged_into(self.file, seq))
            names = [found["case_id"], *(each["case_id"] for each in parts)]
            events = queries.events_of(self.file, names, EVENTS_MAX)
            alerts = queries.alerts_of(self.file, seq)
            key = queries.key_of(self.file, seq)
        undone = {each["after"].get("note") for each in events if each["kind"] == "undone"}
        notes = [each for each in events if each["kind"] == "note" and each["number"] not in undone]
        return {
            **found,
            "key": key,
            "alert_ids": [each["alert_id"] for each in alerts],
            "merged": [each["number"] for each in parts],
            "alerts": alerts,
            "notes": [{name: each[name] for name in ("at", "by", "text")} for each in notes],
            "activity": events,
        }

    def act(self, case_id: str, act: CaseAction, who: str, version: int | None = None) -> dict[str, Any]:
        """Do it on a case; the case as it is then.

        Raises NoSuchCaseError, NotTakenError where it does not fit the case, ChangedError where it has not ``version``.
        """
        now_ms = self._clock_ms()
        act.checked(now_ms)
        with self.file.transaction():
            if act.act == "undo":
                seq = undo(self.file, case_id, who, now_ms, version)
            else:
                seq = do(self.file, case_id, act, who, now_ms, version)
        self._on_change()
        return self.case(f"{rows.PREFIX}{seq}")

    def bulk(
        self, wanted: Sequence[str] | QueueFilter, act: CaseAction, who: str, expected_count: int | None = None
    ) -> dict[str, Any]:
        """Do it on many cases, which are named or meet a filter, in one transaction; what was done.

        Raises NotTakenError if so many are not expected, or nothing of it is valid.
        """
        now_ms = self._clock_ms()
        act.checked(now_ms)
        if isinstance(wanted, QueueFilter):
            wanted.checked()
            found = self.queue.board.sorted(self.queue.rows(wanted, who), "newest")
            names = [f"{rows.PREFIX}{row}" for row in found.tolist()]
        else:
            names = list(dict.fromkeys(wanted))
        many.check_count(len(names), expected_count)
        with self.file.transaction():
            done = many.on_many(self.file, names, act, who, now_ms)
            standing_now = [case_state.read(self.file, seq) for seq in done.done]
        self._on_change()
        return {
            "count": len(done.done),
            "done": [{"case_id": each.case_id, "version": each.version} for each in standing_now],
            "refused": [{"case_id": name, "why": why} for name, why in done.refused.items()],
        }

    def similar(self, case_id: str, limit: int = NEAR_MAX) -> list[dict[str, Any]]:
        """Resolved cases of a same rule about the same kind of entity, the latest resolved first."""
        seq = rows.seq_of(self.file, case_id)
        self.queue.board.follow()
        return queries.listed(self.file, self.queue.board.similar(seq, limit).tolist())

    def linked(self, case_id: str, limit: int = NEAR_MAX) -> list[dict[str, Any]]:
        """Cases that share a value by which alerts are linked, the latest first, each with what is ``shared``."""
        shared = case_search.linked(self.file, rows.seq_of(self.file, case_id), limit)
        cases = queries.listed(self.file, list(shared))
        return [
            {**case, "shared": [{"field": field, "value": value} for field, value in pairs]}
            for case, pairs in zip(cases, shared.values(), strict=True)
        ]

    def changes(self, after: int, limit: int = 200) -> list[tuple[int, dict[str, Any]]]:
        """Cases that changed behind change number ``after``, each once, in the order of their last changes."""
        with self.file.reading():
            found = self.file.rows(
                "SELECT seq, change_no FROM cases WHERE change_no > ? ORDER BY change_no LIMIT ?", (after, limit)
            )
            cases = queries.listed(self.file, [each["seq"] for each in found])
        return [(each["change_no"], case) for each, case in zip(found, cases, strict=True)]

    def last_change(self) -> int:
        """The number of the last change of any case."""
        return int(self.file.rows("SELECT value FROM counters WHERE name = 'changes'")[0]["value"])

    def life(self) -> int:
        """A number that another file of cases does not have: changes of two files have the same numbers."""
        with self.file.transaction():
            made = "INSERT INTO counters VALUES ('life', ?) ON CONFLICT (name) DO NOTHING"
            self.file.run(made, (secrets.randbits(LIFE_BITS),))
            return int(self.file.rows("SELECT value FROM counters WHERE name = 'life'")[0]["value"])

    def due_ms(self) -> int | None:
        """When the next snooze ends; None if there is none."""
        found = self.file.rows("SELECT min(snoozed_ms) AS ms FROM cases WHERE snoozed_ms IS NOT NULL")
        return None if found[0]["ms"] is None else int(found[0]["ms"])

    def wake(self) -> None:
        """Bring back the cases whose snooze has ended."""
        due_ms, now_ms = self.due_ms(), self._clock_ms()
        if due_ms is None or due_ms > now_ms:
            return
        with self.file.transaction():
            due = self.file.rows("SELECT seq FROM cases WHERE snoozed_ms <= ? LIMIT ?", (now_ms, WOKEN_AT_ONCE))
            for each in due:
                case = case_state.read(self.file, each["seq"])
                back = case.moved("acknowledged" if case.assignee else "open")
                text = f"the snooze ended at {instant_text(case.snoozed_ms or now_ms)}"
                case_state.write(self.file, case, back, LINKER, now_ms, text, {})
        self._on_change()
