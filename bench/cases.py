"""The rate at which alerts become cases, and the time to read queues, searches and cases.

``python -m bench.cases [--alerts N] [--folder FOLDER] [--rounds N]``. Alerts arrive in batches, 3 to 4 per case. They
pass through the same intake as in the API: 250 per transaction, synced. If FOLDER holds a file of an earlier run, it is
read again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.report import Report
from bench.rounds import add_times, folder_of, parser_of, rounds_ms
from crossline.basics.times import instant_text
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.cases import FILE, Cases
from crossline.serve.cases.intake.batches import CaseIntake
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.service import CaseService
from crossline.settings.process.casework import CasesSettings

START_MS, APART_MS = 1_767_225_600_000, 400
AT_ONCE, MADE_AT_ONCE = 250, 1_000
SEVERITIES = ("info", "low", "medium", "medium", "high", "critical")
SETTINGS = CasesSettings.model_validate(
    {"link": ["card_hash"], "within": "24h", "money": {"field": "amount_cents", "currency": "currency", "decimals": 2}}
)


def alerts(first: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Alerts number ``first`` and on: an account has 3 or 4 of them, close together."""
    for number in range(first, first + count):
        at = random.Random(number)
        account = f"a{number // 100 * 30 + at.randrange(30):07}"
        rule = f"rule_{at.randrange(40):02}"
        body = {
            "alert_id": f"{at.getrandbits(128):032x}",
            "kind": "alert",
            "rule_id": rule,
            "rule_version": 1,
            "severity": at.choice(SEVERITIES),
            "key": {"account_id": account},
            "stream": "payments" if at.random() < 0.8 else "logins",
            "record_id": f"t{number:09}",
            "event_time": instant_text(START_MS + number * APART_MS),
            "message": f"{account} sent {at.randrange(5, 90)} payments within 10 min, at least 5 are asked for",
            "record": {"amount_cents": at.randrange(100, 900_000), "currency": "EUR", "card_hash": f"h{account}"},
        }
        yield "alerts", orjson.dumps(body)


def taken(intake: CaseIntake, first: int, count: int, at_once: int) -> float:
    """Seconds that taking so many alerts took, but for making them."""
    spent = 0.0
    for at in range(first, first + count, at_once):
        steps: Any = list(alerts(at, min(at_once, first + count - at)))
        began = time.perf_counter()
        intake.take(steps, None)
        spent += time.perf_counter() - began
    return spent


def worked(desk: CaseService, cases: int) -> None:
    """Resolve most cases, and move some of the others on, as analysts would have."""
    at = random.Random(7)
    names = [f"C-{number}" for number in range(1, cases + 1) if at.random() < 0.9]
    for done, first in enumerate(range(0, len(names), 2_000)):
        part = names[first : first + 2_000]
        desk.bulk(part, CaseAction("resolve", label="fraud" if done % 7 == 0 else "good"), "ada", len(part))
    left = [f"C-{number}" for number in range(1, cases + 1, 11)]
    for first in range(0, len(left), 2_000):
        part = left[first : first + 2_000]
        desk.bulk(part, CaseAction("assign", to=f"p{first % 5}"), "ada", len(part))


def queries(desk: CaseService, cases: int, at: random.Random) -> dict[str, Callable[[], Any]]:
    """What is timed, by name; values are drawn anew in each round."""

    def page(sort: str = "newest", **wanted: Any) -> Any:
        return desk.page(QueueFilter(**wanted), "p0", sort)

    def second() -> Any:
        first = desk.page(QueueFilter(view="all"), "p0", "money")
        return desk.page(QueueFilter(view="all"), "p0", "money", first.place)

    def case() -> str:
        return f"C-{at.randrange(1, cases)}"

    return {
        "open, newest": lambda: page(view="open"),
        "all, by money": lambda: page("money"),
        "open, by severity": lambda: page("severity", view="open"),
        "mine, high": lambda: page(view="mine", severity="high"),
        "one rule": lambda: page(rule_id=f"rule_{at.randrange(40):02}"),
        "five filters": lambda: page("money", severity="high", stream="logins", rule_id="rule_07", money=5000.0),
        "nothing is found": lambda: page(view="open", decision="block", rule_id="rule_11"),
        "one entity": lambda: page(key={"account_id": f"a{at.randrange(cases):07}"}),
        "second page": second,
        "counts of the rail": lambda: desk.counts("p0"),
        "search, an id": lambda: page(q=f"t{at.randrange(cases * 3):09}"),
        "search, a word of all": lambda: page(q="payments"),
        "search, part of an id": lambda: page(q=f"a00{at.randrange(1000):03}"),
        "a case": lambda: desk.case(case()),
        "similar": lambda: desk.similar(case()),
        "linked": lambda: desk.linked(case()),
    }


def run(folder: Path, count: int, rounds: int) -> Report:
    """Create the store if it is missing, and time its queries."""
    report = Report("cases", f"Casework: alerts become cases, and queues are read, {rounds} times each")
    fresh = not (folder / FILE).exists()
    cases, intake = Cases(folder / FILE), CaseIntake(folder / FILE, SETTINGS)
    desk = CaseService(cases)
    if fresh:
        taken(intake, 0, count, MADE_AT_ONCE)
    (found,) = cases.file.rows("SELECT count(*) AS cases, (SELECT count(*) FROM alerts) AS alerts FROM cases")
    if not cases.file.rows("SELECT 1 FROM cases WHERE state = 'resolved' LIMIT 1"):
        worked(desk, found["cases"])
    part = 10_000
    spent_s = taken(intake, found["alerts"] * 2, part, AT_ONCE)
    report.add(what="intake", alerts_per_s=round(part / spent_s), cases=found["cases"], alerts=found["alerts"])
    began = time.perf_counter()
    CaseService(cases).queue.board.follow()
    report.add(what="reading the columns once", ms=round(1_000 * (time.perf_counter() - began)))
    for name, ask in queries(desk, found["cases"], random.Random(11)).items():
        add_times(report, rounds_ms(ask, rounds), what=name)
    intake.close()
    cases.close()
    return report


def main() -> None:
    """The command line."""
    given = parser_of(__doc__, alerts=1_000_000, rounds=200).parse_args()
    with folder_of(given.folder, "cases") as folder:
        run(folder, given.alerts, given.rounds).finish()


if __name__ == "__main__":
    main()
