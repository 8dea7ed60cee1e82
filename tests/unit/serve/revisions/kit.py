"""Revisions, and the settings of an address on this machine."""

from __future__ import annotations

from typing import Any

from crossline.serve.revisions.values import Revision
from crossline.settings.process.serve import RevisionSettings

WAIT_S = 60.0


def at(port: int, path: str = "/revisions", **more: Any) -> RevisionSettings:
    given = {"password_env": "CROSSLINE_TEST_KEY", "timeout": "1m", **more}
    return RevisionSettings.model_validate({"url": f"http://127.0.0.1:{port}{path}", **given})


def revision(record: str, number: int = 0) -> Revision:
    name = f"{record}-{number}"
    return Revision(name, "payments", record, {"revision_id": name, "record_id": record, "revision": number})


def many(records: str, numbers: int) -> list[Revision]:
    return [revision(record, number) for number in range(numbers) for record in records]


def in_order(taken: list[str], record: str) -> list[int]:
    return [int(name.partition("-")[2]) for name in taken if name.startswith(f"{record}-")]
