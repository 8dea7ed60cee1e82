"""Labels: a log to which each is added, and the last word on each record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from crossline.serve.cases import checks
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.statistics.verdicts import count_label
from crossline.serve.cases.suppressions.counts import count_hidden_fraud
from crossline.serve.cases.values import CaseVerdict, ChangedError, Label

PIECE = 5_000
_COLUMNS = "stream, record_id, is_fraud, known_ms, reason, who, at_ms, version, case_id, withdrawn"


def checked(verdict: CaseVerdict, base: str, now_ms: int) -> CaseVerdict:
    """``verdict`` with its time. Raises NotTakenError."""
    return CaseVerdict(
        checks.truth(f"{base}/is_fraud", verdict.is_fraud),
        checks.text(f"{base}/reason", verdict.reason, checks.REASON_MAX),
        checks.known_ms(f"{base}/known_at", verdict.known_ms, now_ms),
    )


def add(
    file: CaseFile,
    record: tuple[str, str],
    verdict: CaseVerdict,
    who: str,
    now_ms: int,
    *,
    version: int | None = None,
    case_id: str | None = None,
) -> Label:
    """Say it of ``record`` (stream and id), in a transaction.

    Raises ChangedError if ``version`` is not that of the last word (0: there is none).
    """
    newest = _newest(file, *record)
    stands = newest if newest is not None and not newest.withdrawn else None
    found = stands.version if stands is not None else 0
    if version is not None and version != found:
        raise ChangedError(
            f"the label of {record[1]} was changed meanwhile: found version {found}, expected {version}; look at it "
            "again, and name that version",
            stands,
        )
    known_ms = verdict.known_ms if verdict.known_ms is not None else now_ms
    version_now = 1 if newest is None else newest.version + 1
    label = Label(*record, verdict.is_fraud, known_ms, verdict.reason, who, now_ms, version_now, case_id)
    _insert(file, stands, label)
    return label


def withdraw(file: CaseFile, given: Label, before: Label | None, who: str, now_ms: int) -> bool:
    """Take back the latest label, in a transaction: ``before`` counts again, or nothing does where that is None.

    Nothing happens, and it is False, where another label came since.
    """
    stands = _newest(file, given.stream, given.record_id)
    if stands is None or stands.version != given.version:
        return False
    back = stands if before is None else before
    reason, version = f"taken back: {given.reason}"[: checks.REASON_MAX], stands.version + 1
    again = replace(back, reason=reason, who=who, at_ms=now_ms, version=version, withdrawn=before is None)
    _insert(file, stands, again)
    return True


def _insert(file: CaseFile, stands: Label | None, label: Label) -> None:
    file.run(
        f"INSERT INTO labels ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 - our own names
        (
            *(label.stream, label.record_id, int(label.is_fraud), label.known_ms, label.reason, label.who),
            *(label.at_ms, label.version, label.case_id, int(label.withdrawn)),
        ),
    )
    count_label(file, stands, label)
    was, now = (each is not None and each.is_fraud and not each.withdrawn for each in (stands, label))
    count_hidden_fraud(file, label.stream, label.record_id, was=was, now=now)


def last(file: CaseFile, stream: str, record_id: str) -> Label | None:
    """The newest label of a record; None if there is none, or it was taken back."""
    found = _newest(file, stream, record_id)
    return None if found is None or found.withdrawn else found


def _newest(file: CaseFile, stream: str, record_id: str) -> Label | None:
    found = file.rows(
        f"SELECT {_COLUMNS} FROM labels WHERE stream = ? AND record_id = ? ORDER BY version DESC LIMIT 1",  # noqa: S608 - our own names
        (stream, record_id),
    )
    return _label(found[0]) if found else None


def history(file: CaseFile, stream: str, record_id: str) -> list[Label]:
    """All labels of a record, the latest last."""
    found = file.rows(
        f"SELECT {_COLUMNS} FROM labels WHERE stream = ? AND record_id = ? ORDER BY version",  # noqa: S608 - as above
        (stream, record_id),
    )
    return [_label(each) for each in found]


def current_labels(
    file: CaseFile, streams: Sequence[str] | None, known_by_ms: int | None, given_by_ms: int | None
) -> Iterator[Label]:
    """The latest label of each record, in the order in which they were given, read in pieces.

    ``known_by_ms``, ``given_by_ms``: only labels known, and given, up to then.
    """
    # All of one moment, however long it is read: labels that come meanwhile are not seen.
    (end,) = file.rows("SELECT coalesce(max(seq), 0) AS seq FROM labels")
    inner, values = ["m.stream = l.stream", "m.record_id = l.record_id", "m.seq <= ?"], [end["seq"]]
    for column, bound_ms in (("known_ms", known_by_ms), ("at_ms", given_by_ms)):
        if bound_ms is not None:
            inner.append(f"m.{column} <= ?")
            values.append(max(-(2**62), min(bound_ms, 2**62)))
    newest = f"SELECT max(version) FROM labels AS m WHERE {' AND '.join(inner)}"  # noqa: S608 - our own names
    where = ["seq > ?", f"version = ({newest})", "withdrawn = 0"]
    if streams is not None:
        where.append(f"stream IN ({', '.join('?' * len(streams))})")
        values += streams
    query = f"SELECT seq, {_COLUMNS} FROM labels AS l WHERE {' AND '.join(where)} ORDER BY seq LIMIT {PIECE}"  # noqa: S608
    after = 0
    while found := file.rows(query, (after, *values)):
        yield from map(_label, found)
        after = found[-1]["seq"]


def _label(row: sqlite3.Row) -> Label:
    return Label(
        row["stream"],
        row["record_id"],
        bool(row["is_fraud"]),
        row["known_ms"],
        row["reason"],
        row["who"],
        row["at_ms"],
        row["version"],
        row["case_id"],
        bool(row["withdrawn"]),
    )
