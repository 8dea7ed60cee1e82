"""From one case of a queue to the next, and what is new in it since the last visit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.queue import queries
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.rows import PREFIX, seq_of
from crossline.serve.cases.service import CaseService

NEWS_MAX = 200
_LINKED = """SELECT t.case_seq AS seq, count(DISTINCT o.case_seq) AS n FROM case_ties AS t
JOIN case_ties AS o USING (field, value) JOIN cases AS k ON k.seq = o.case_seq
WHERE t.case_seq IN ({}) AND t.joins = 1 AND o.joins = 1 AND o.case_seq != t.case_seq AND k.state != 'merged'
GROUP BY t.case_seq"""


@dataclass(frozen=True, slots=True)
class News:
    """Cases of a queue that were opened since: how many, and how many of them are critical."""

    count: int
    critical: int


def next_case(desk: CaseService, wanted: QueueFilter, who: str, sort: str, case_id: str) -> tuple[str | None, int]:
    """The case behind ``case_id`` in a queue, None at its end; and how many cases there are. Raises NoSuchCaseError."""
    order = desk.queue.board.sorted(desk.queue.rows(wanted, who), sort).tolist()
    seq = seq_of(desk.file, case_id)
    at = order.index(seq) + 1 if seq in order else 0
    return (f"{PREFIX}{order[at]}" if at < len(order) else None), len(order)


def newest(file: CaseFile) -> int:
    """The number of the case that was opened last; 0 where there is none."""
    return int(file.rows("SELECT coalesce(max(seq), 0) AS seq FROM cases")[0]["seq"])


def news(desk: CaseService, wanted: QueueFilter, who: str, seen: int) -> News:
    """Of the cases that a queue shows, those opened after number ``seen``."""
    found = desk.queue.rows(wanted, who)
    fresh = found[found > seen]
    cases = queries.listed(desk.file, fresh[-NEWS_MAX:].tolist())
    return News(len(fresh), sum(each["severity"] == "critical" for each in cases))


def linked_counts(file: CaseFile, numbers: Sequence[int]) -> dict[int, int]:
    """How many other cases share a value with each of these."""
    marks = ", ".join("?" * len(numbers))
    return {each["seq"]: each["n"] for each in file.rows(_LINKED.format(marks), list(numbers))}


def last_act_ms(file: CaseFile, who: str) -> int | None:
    """The time of the last act that can be undone."""
    return file.rows("SELECT max(at_ms) AS ms FROM acts WHERE who = ?", (who,))[0]["ms"]  # type: ignore[no-any-return]


def acted_at(file: CaseFile, who: str, at_ms: int) -> list[str]:
    """The cases of one act on many, by its time."""
    found = file.rows("SELECT case_seq FROM acts WHERE who = ? AND at_ms = ? ORDER BY number DESC", (who, at_ms))
    return [f"{PREFIX}{each['case_seq']}" for each in found]
