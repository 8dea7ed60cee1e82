"""A console over a past of which frauds and good customers are known: what blast radius and thresholds are seen on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unit.serve.console.kit import Room
from unit.serve.console.pages.working import working

DAYS, ACCOUNTS = 4, 24
RULE = """\
rule_id: card_testing
version: 2
rule_type: velocity
source_topic: payments
group_by: account_id   # one window an account
aggregation_type: count
aggregation_threshold: 3
window: 15m
severity: high
action: review
"""


@contextmanager
def labelled(tmp_path: Path) -> Iterator[Room]:
    """Every day each account pays once or some times in a row; two in five of these rows are fraud."""
    drawn = random.Random(3)
    with working(tmp_path) as room:
        rows = []
        for day in range(1, DAYS + 1):
            for account in range(ACCOUNTS):
                start, fraud = drawn.randrange(1_300), drawn.random() < 0.4
                for number in range(drawn.choice([1, 1, 2, 2, 3, 4, 6])):
                    minute = start + 2 * number
                    at = f"2026-01-{day:02}T{minute // 60:02}:{minute % 60:02}:{drawn.randrange(60):02}Z"
                    rows.append((at, f"acc{account:04}", drawn.randrange(100, 90_000), fraud))
        rows.sort()
        for each in (room.folder / "in").iterdir():
            each.unlink()
        with (room.folder / "in/past.jsonl").open("w") as file:
            for number, (at, account, amount, fraud) in enumerate(rows):
                record = {"payment_id": f"x{number:04}", "account_id": account, "amount_cents": amount, "paid_at": at}
                more = {"merchant_id": f"m{number % 7}", "channel": "card", "country": "DE"}
                file.write(json.dumps({**record, **more}) + "\n")
                room.parts.deps.cases.put_label("payments", f"x{number:04}", {"is_fraud": fraud}, "ines.vale", None)
        yield room
