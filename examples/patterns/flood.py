"""Writes in/events.raw-flood.jsonl: 101 page views of as many users, eleven a second for nine seconds and two more."""

from __future__ import annotations

import json
import sys

for number in range(1, 102):
    second, tenth = divmod(number - 1, 11)
    record = {
        "event_id": f"view-{number:03}",
        "user_id": f"visitor-{number:03}",
        "type": "view",
        "event_ts": f"2026-01-05T11:00:{second:02}.{tenth:02}0Z",
    }
    sys.stdout.write(json.dumps(record) + "\n")
