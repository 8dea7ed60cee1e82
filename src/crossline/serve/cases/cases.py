"""The store of labels and cases."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from crossline.io.sinks.base import wall_clock_ms
from crossline.serve.cases import casework, checks, labels, rows, summary
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.values import (
    Case,
    CaseChange,
    CaseEvent,
    CaseFilter,
    CaseList,
    CaseVerdict,
    ChangedError,
    Label,
    LinkedAlert,
    NotTakenError,
)

FILE = "cases.db"
EVERY_CASE = CaseFilter()


class Cases:
    """Labels, cases and notes in one SQLite file, ``cases.db`` in the folder of ``serve.path``.

    Labels and events are append-only: none is lost or changed. Calls are whole or not at all, and on
    the disk when they return. From any thread; several processes may have the file open.

    Args:
        path: The file; it is made where there is none, with mode 0600.
        clock_ms: The wall clock, in epoch milliseconds.
        make_id: Ids of new cases; None: their numbers, such as C-2041.

    Every call raises RetryableError where the file is locked or the disk takes nothing, and StateError where the file
    is no file of labels and cases.

    >>> cases = Cases(Path("out/serve/cases.db"))
    >>> label = cases.put_label("payments", "t0000007", True, who="ada", reason="chargeback")
    >>> cases.label("payments", "t0000007").is_fraud
    True
    """

    def __init__(
        self,
        path: Path,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        make_id: Callable[[], str] | None = None,
    ) -> None:
        self._file = CaseFile(path)
        self._clock_ms = clock_ms
        self._make_id = make_id

    def put_label(
        self,
        stream: str,
        record_id: str,
        is_fraud: bool,
        *,
        who: str,
        reason: str = "",
        known_ms: int | None = None,
        version: int | None = None,
        key: str | None = None,
    ) -> Label:
        """Say of a record whether it is fraud. It is the last word, until the next one; those before it stay.

        Args:
            stream: The record's stream.
            record_id: The record's id.
            is_fraud: Whether it is.
            who: The principal.
            reason: Why, for people.
            known_ms: When that became known, epoch milliseconds; None: now.
            version: That of the last word which is to be replaced (``If-Match``), 0 for none; None: whatever stands.
            key: The ``Idempotency-Key``: the same key with the same label is written once.

        Returns:
            The label as it stands.

        Raises:
            ChangedError: The label there has another version than ``version``.
            KeyReusedError: ``key`` came with something else before.
            NotTakenError: A text is too long, ``known_ms`` is yet to come.
        """
        asked = ["put_label", stream, record_id, is_fraud, reason, known_ms, version]
        record = (
            checks.text("/stream", stream, checks.ID_MAX, least=1),
            checks.text("/record_id", record_id, checks.ID_MAX, least=1),
        )
        self._check(who, key)
        now_ms = self._clock_ms()
        verdict = labels.checked(CaseVerdict(is_fraud, reason, known_ms), "", now_ms)
        with self._file.transaction():
            known = self._file.known_key(who, key, asked, now_ms)
            if known is not None:
                return Label(**known)
            made = labels.add(self._file, record, verdict, who, now_ms, version=version)
            self._file.keep_key(who, key, asked, now_ms, dataclasses.asdict(made))
        return made

    def label(self, stream: str, record_id: str) -> Label | None:
        """The latest label of a record; None where it has none."""
        return labels.last(self._file, stream, record_id)

    def label_history(self, stream: str, record_id: str) -> list[Label]:
        """All labels of a record, the latest last."""
        return labels.history(self._file, stream, record_id)

    def labels(
        self,
        streams: Sequence[str] | None = None,
        *,
        known_by_ms: int | None = None,
        given_by_ms: int | None = None,
    ) -> Iterator[Label]:
        """The latest label of each labelled record, in the order in which they were given.

        Args:
            streams: Of records of these streams; None: of all.
            known_by_ms: As far as it was known by then, epoch milliseconds: what a model of that day could be taught.
            given_by_ms: Only labels given by then.
        """
        return labels.current_labels(self._file, streams, known_by_ms, given_by_ms)

    def create_case(
        self,
        title: str,
        alerts: Sequence[LinkedAlert] = (),
        *,
        who: str,
        assignee: str | None = None,
        about: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Case:
        """Open a case with ``alerts``. ``about``: the key that it is about, field name to value.

        Raises NotTakenError, and KeyReusedError as ``put_label``.
        """
        asked = ["create_case", title, [each.to_json() for each in alerts], assignee, about]
        checks.text("/title", title, checks.TITLE_MAX, least=1)
        if assignee is not None:
            checks.text("/assignee", assignee, checks.ID_MAX, least=1)
        linked, entity = checks.alerts("/alerts", alerts), checks.about("/key", about or {})
        self._check(who, key)
        now_ms = self._clock_ms()
        with self._file.transaction():
            known = self._file.known_key(who, key, asked, now_ms)
            if known is not None:
                return Case.from_row(known)
            case_id = rows.next_id(self._file) if self._make_id is None else self._make_id()
            made = Case(case_id, title, "open", linked, assignee, 1, now_ms, who, now_ms, who, entity)
            casework.write(self._file, made, fresh=True)
            after = {name: made.to_json()[name] for name in ("title", "state", "key", "alerts", "assignee")}
            casework.note_event(self._file, made, "created", who, now_ms, "", {}, after)
            self._file.keep_key(who, key, asked, now_ms, made.to_row())
        return made

    def case(self, case_id: str) -> Case:
        """The case as it stands. Raises NoSuchCaseError."""
        return casework.read(self._file, case_id)

    def cases(self, wanted: CaseFilter = EVERY_CASE, cursor: str | None = None, limit: int = 50) -> CaseList:
        """Cases that meet ``wanted``, those opened last first, at most ``limit`` (1 to 500) of them.

        ``cursor``: ``next_cursor`` of the page before. Raises NotTakenError if it is none.
        """
        return casework.search(self._file, wanted, cursor, limit)

    def change_case(
        self, case_id: str, version: int | None, change: CaseChange, who: str, *, key: str | None = None
    ) -> Case:
        """Change a case.

        Args:
            case_id: Which.
            version: Of the case that was looked at (``If-Match``); None: whatever stands (``If-Match: *``).
            change: What is to become of it. A verdict labels the records of all its alerts, in the same transaction.
            who: The principal.
            key: The ``Idempotency-Key``.

        Returns:
            The case as it stands now.

        Raises:
            NoSuchCaseError: There is no such case.
            ChangedError: It has another version; the error has the case as it stands.
            NotTakenError: The change does not fit the case, or changes nothing.
            KeyReusedError: ``key`` came with something else before.
        """
        asked = ["change_case", case_id, version, _plain(change)]
        self._check(who, key)
        now_ms = self._clock_ms()
        checks.text("/reason", change.reason, checks.REASON_MAX)
        verdict = None if change.verdict is None else labels.checked(change.verdict, "/label", now_ms)
        with self._file.transaction():
            known = self._file.known_key(who, key, asked, now_ms)
            if known is not None:
                return Case.from_row(known)
            case = casework.read(self._file, case_id)
            if version is not None and version != case.version:
                raise ChangedError(
                    f"case {case_id} was changed meanwhile, by {case.changed_by}: found version {case.version}, "
                    f"expected {version}; look at it again, and name that version",
                    case,
                )
            made = casework.changed(case, change, who, now_ms)
            is_fraud = None if verdict is None else verdict.is_fraud
            casework.write(self._file, made, fresh=False, verdict=is_fraud)
            before, after = casework.difference(case, made)
            if verdict is not None:
                records = casework.records_of(made)
                for record in records:
                    labels.add(self._file, record, verdict, who, now_ms, case_id=case_id)
                after["label"] = {"is_fraud": verdict.is_fraud, "records": [list(each) for each in records]}
            casework.note_event(self._file, made, "changed", who, now_ms, change.reason, before, after)
            self._file.keep_key(who, key, asked, now_ms, made.to_row())
        return made

    def note(self, case_id: str, text: str, who: str, *, key: str | None = None) -> CaseEvent:
        """Add a note to a case, in any state of it; its version stays, for a note takes nothing from anybody.

        Raises NoSuchCaseError, NotTakenError, KeyReusedError.
        """
        asked = ["note", case_id, text]
        checks.text("/text", text, checks.NOTE_MAX, least=1)
        self._check(who, key)
        now_ms = self._clock_ms()
        with self._file.transaction():
            known = self._file.known_key(who, key, asked, now_ms)
            if known is not None:
                return CaseEvent(**known)
            case = casework.read(self._file, case_id)
            made = casework.note_event(self._file, case, "note", who, now_ms, text, {}, {})
            summary.touch(self._file, rows.seq_of(self._file, case_id))
            self._file.keep_key(who, key, asked, now_ms, dataclasses.asdict(made))
        return made

    def events(self, case_id: str | None = None, *, after: int = 0, limit: int = 500) -> list[CaseEvent]:
        """What became of a case (None: of all) and its notes, in their order, those behind number ``after``."""
        if not 1 <= limit <= casework.LIMIT_MAX:
            raise NotTakenError("?limit", str(limit), f"1 to {casework.LIMIT_MAX}")
        return casework.events(self._file, case_id, after, limit)

    def notes(self, case_id: str, limit: int = 500) -> list[CaseEvent]:
        """The notes of a case, in their order: of many the last ``limit``."""
        return casework.notes(self._file, case_id, limit)

    def cursor_after(self, case_id: str) -> str:
        """The cursor of the page that begins behind a case. Raises NoSuchCaseError."""
        return casework.cursor_after(self._file, case_id)

    @property
    def file(self) -> CaseFile:
        """Where all of it is, for the other parts of the store."""
        return self._file

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._file.close()

    def _check(self, who: str, key: str | None) -> None:
        checks.text("who", who, checks.ID_MAX, least=1)
        if key is not None:
            checks.text("Idempotency-Key", key, checks.ID_MAX, least=1)


def _plain(change: CaseChange) -> dict[str, Any]:
    found = dataclasses.asdict(change)
    return {name: value for name, value in found.items() if name != "assignee"} | (
        {"assignee": change.assignee} if change.assignee is None or isinstance(change.assignee, str) else {}
    )
