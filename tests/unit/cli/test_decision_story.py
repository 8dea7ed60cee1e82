"""What ``crossline decisions show`` says of a reason: its own alert, that of the crossing, or that of a hold."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.cli.decisions import _decision_rows

REASON = {"rule_id": "often", "rule_version": 2, "action": "step_up", "score": 40, "message": "m"}


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"alert_id": "a1"}, "alert a1"),
        ({"alert_id": "a1", "standing": True}, "alert a1, raised when it began to hold"),
        ({"alert_id": None, "standing": True}, "alert not known, raised when it began to hold"),
        ({"alert_id": "a1", "held_by": "a1"}, "alert a1"),
    ],
)
def test_a_reason_names_its_alert(more: dict[str, Any], line: str) -> None:
    decision = {
        "decision_id": "d",
        "score": 40,
        "policy_version": 1,
        "event_time": "t",
        "reasons": [{**REASON, **more}],
    }
    body = list(_decision_rows(decision))
    assert ("because", "often@2 asks for step_up (score 40): m") in body
    assert body[body.index(("because", "often@2 asks for step_up (score 40): m")) + 1] == ("", line)
