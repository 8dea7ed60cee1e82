"""Alerts that go from one case to another. In a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import orjson

from crossline.basics.texts.problems import shown
from crossline.serve.cases import checks, rows, summary
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.linking import retie
from crossline.serve.cases.values import NotTakenError

_ALERTS = "SELECT alert_id, stream, record_id FROM case_alerts WHERE case_seq = ? ORDER BY position"


def check_room(file: CaseFile, cases: Sequence[int]) -> None:
    """Raises NotTakenError if the alerts of all of them are too many for one."""
    count = sum(len(file.rows(_ALERTS, (seq,))) for seq in cases)
    if count > checks.ALERTS_MAX:
        raise NotTakenError("/case_ids", f"{count:,} alerts in all", f"at most {checks.ALERTS_MAX:,} in a case")


def move_all(file: CaseFile, from_seq: int, to_seq: int) -> list[str]:
    """Move the alerts of a case, but those that the other one has; which."""
    known = {each["alert_id"] for each in file.rows(_ALERTS, (to_seq,))}
    names = [each["alert_id"] for each in file.rows(_ALERTS, (from_seq,)) if each["alert_id"] not in known]
    move(file, names, from_seq, to_seq)
    return names


def move(file: CaseFile, alert_ids: Iterable[str], from_seq: int, to_seq: int) -> None:
    """Move these alerts behind those of the other case."""
    (last,) = file.rows("SELECT coalesce(max(position), -1) AS at FROM case_alerts WHERE case_seq = ?", (to_seq,))
    for number, name in enumerate(alert_ids, last["at"] + 1):
        file.run(
            "UPDATE case_alerts SET case_seq = ?, position = ? WHERE case_seq = ? AND alert_id = ?",
            (to_seq, number, from_seq, name),
        )


def detached(file: CaseFile, seq: int, alert_id: str, who: str, now_ms: int) -> tuple[int, str]:
    """Make a case of an alert of another one; its row and its number. Raises NotTakenError."""
    known = [each["alert_id"] for each in file.rows(_ALERTS, (seq,))]
    if alert_id not in known:
        raise NotTakenError("/alert_id", shown(alert_id), "an alert of the case")
    if len(known) == 1:
        raise NotTakenError("/alert_id", "the only alert of the case", "one of several")
    found = file.rows("SELECT message, entity, event_ms FROM alerts WHERE alert_id = ?", (alert_id,))
    message, at_ms = (found[0]["message"], found[0]["event_ms"]) if found else (f"Alert {alert_id}", now_ms)
    title = message[: checks.TITLE_MAX] or alert_id
    made, case_id = rows.insert(file, title, who, now_ms, at_ms)
    key = orjson.loads(found[0]["entity"]) if found else {}
    for number, (name, value) in enumerate(list(key.items())[: checks.KEY_MAX]):
        file.run("INSERT INTO case_keys VALUES (?, ?, ?, ?)", (made, name, value, number))
    move(file, [alert_id], seq, made)
    after = {"title": title, "state": "open", "alerts": [alert_id]}
    rows.event(file, case_id, 1, "created", who, now_ms, "", {}, after)
    return made, case_id


def settle(file: CaseFile, cases: Iterable[int]) -> None:
    """Reckon anew what they say, and by which values they are joined: a case without alerts by none."""
    for seq in cases:
        retie(file, seq)
        summary.refresh(file, seq)
