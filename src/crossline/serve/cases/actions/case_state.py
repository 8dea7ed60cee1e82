"""A case as acts see it: the columns that acts change, read and written back. In a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crossline.serve.cases import rows, summary
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import ChangedError, NotTakenError

_CHANGED = ("state", "assignee", "escalated_to", "snoozed_ms", "resolved_ms", "verdict", "merged_into")
_REPORTED = ("state", "assignee", "escalated_to")


@dataclass(frozen=True, slots=True)
class MutableCase:
    """A case as it stands."""

    seq: int
    case_id: str
    version: int
    state: str
    assignee: str | None
    escalated_to: str | None
    snoozed_ms: int | None
    resolved_ms: int | None
    verdict: int | None
    merged_into: int | None

    def columns(self) -> dict[str, Any]:
        """What acts change, by name."""
        return {name: getattr(self, name) for name in _CHANGED}

    def moved(self, state: str, **more: Any) -> MutableCase:
        """In ``state``, with what belongs to no other state."""
        kept = {
            "escalated_to": self.escalated_to if state == "escalated" else None,
            "snoozed_ms": None,
            "resolved_ms": None,
            "verdict": None,
        }
        return replace(self, state=state, **{**kept, **more})


def read(file: CaseFile, seq: int) -> MutableCase:
    """The case of a row."""
    names = ", ".join(MutableCase.__slots__)
    (found,) = file.rows(f"SELECT {names} FROM cases WHERE seq = ?", (seq,))  # noqa: S608 - our names
    return MutableCase(**found)


def read_live(file: CaseFile, case_id: str) -> MutableCase:
    """The case of that id. Raises NoSuchCaseError, and NotTakenError where it was merged into another one."""
    case = read(file, rows.seq_of(file, case_id))
    if case.merged_into is not None:
        into = f"{rows.PREFIX}{final(file, case.seq)}"
        raise NotTakenError("", f"{case.case_id}, which was merged into {into}", f"an act on {into}")
    return case


def final(file: CaseFile, seq: int) -> int:
    """The case that a case was merged into in the end; itself where it was not."""
    while True:
        (found,) = file.rows("SELECT merged_into FROM cases WHERE seq = ?", (seq,))
        if found["merged_into"] is None:
            return seq
        seq = found["merged_into"]


def check_version(case: MutableCase, version: int | None) -> None:
    """Raises ChangedError if another change came first."""
    if version is not None and version != case.version:
        error = ChangedError(
            f"case {case.case_id} was changed meanwhile: found version {case.version}, expected {version}; "
            "look at it again, and name that version",
            None,
        )
        error.version = case.version
        raise error


def write(
    file: CaseFile, before: MutableCase, after: MutableCase, who: str, now_ms: int, text: str, more: Mapping[str, Any]
) -> int:
    """Store ``after`` as the next version, with an event; that version."""
    put = ", ".join(f"{name} = ?" for name in _CHANGED)
    version = before.version + 1
    file.run(
        f"UPDATE cases SET {put}, version = ?, changed_ms = ?, changed_by = ? WHERE seq = ?",  # noqa: S608 - our names
        (*after.columns().values(), version, now_ms, who, before.seq),
    )
    changed = [name for name in _REPORTED if getattr(before, name) != getattr(after, name)]
    was = {name: getattr(before, name) for name in changed}
    now = {name: getattr(after, name) for name in changed}
    rows.event(file, before.case_id, version, "changed", who, now_ms, text, was, {**now, **more})
    summary.touch(file, before.seq)
    return version
