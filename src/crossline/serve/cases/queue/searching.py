"""Finds cases by words, ids and numbers, and by values that their alerts have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.rows import DIGITS_MAX

FOUND_MAX = 2_000  # texts that one search takes, the latest
_NUMBER = re.compile(r"[cC]-([0-9]+)", re.ASCII)
_OF_ALERTS = """SELECT DISTINCT c.case_seq FROM (SELECT rowid AS r FROM texts WHERE texts MATCH ? ORDER BY rowid DESC
LIMIT ?) JOIN alerts AS a ON a.number = r / 2 JOIN case_alerts AS c ON c.alert_id = a.alert_id WHERE r % 2 = 0"""
_OF_EVENTS = """SELECT DISTINCT k.seq FROM (SELECT rowid AS r FROM texts WHERE texts MATCH ? ORDER BY rowid DESC
LIMIT ?) JOIN case_events AS e ON e.number = r / 2 JOIN cases AS k ON k.case_id = e.case_id WHERE r % 2 = 1"""


def found(file: CaseFile, text: str) -> set[int]:
    """The rows of cases in which all words of ``text`` stand, in one alert or note.

    Where there is none, each word may be cut short at its end.
    A number such as C-2041 is that case alone. Of more than ``FOUND_MAX`` texts the latest count.
    """
    number = _NUMBER.fullmatch(text.strip())
    if number is not None:
        return {int(number[1])} if len(number[1]) < DIGITS_MAX else set()
    words = [each for each in text.replace("\0", " ").split() if any(one.isalnum() for one in each)]
    if not words:
        return set()
    quoted = ['"' + each.replace('"', '""') + '"' for each in words]
    whole = _matching(file, " ".join(quoted))
    return whole or _matching(file, " ".join(f"{each}*" for each in quoted))


def _matching(file: CaseFile, match: str) -> set[int]:
    rows = [*file.rows(_OF_ALERTS, (match, FOUND_MAX)), *file.rows(_OF_EVENTS, (match, FOUND_MAX))]
    return {each[0] for each in rows}


def having(file: CaseFile, key: Mapping[str, str]) -> set[int]:
    """The rows of cases that have all of these values."""
    several = [
        {each[0] for each in file.rows("SELECT case_seq FROM case_ties WHERE field = ? AND value = ?", pair)}
        for pair in key.items()
    ]
    return set.intersection(*several) if several else set()


def linked(file: CaseFile, seq: int, limit: int) -> dict[int, list[tuple[str, str]]]:
    """Other cases that share values with a case, the latest first, and which values; merged ones are left out."""
    found_rows = file.rows(
        "SELECT o.case_seq, o.field, o.value FROM case_ties AS t JOIN case_ties AS o USING (field, value) "
        "JOIN cases AS k ON k.seq = o.case_seq WHERE t.case_seq = ? AND t.joins = 1 AND o.joins = 1 "
        "AND o.case_seq != ? AND k.state != 'merged' ORDER BY o.last_ms DESC, o.case_seq DESC LIMIT ?",
        (seq, seq, limit * 8),
    )
    shared: dict[int, list[tuple[str, str]]] = {}
    for each in found_rows:
        if each["case_seq"] in shared or len(shared) < limit:
            shared.setdefault(each["case_seq"], []).append((each["field"], each["value"]))
    return shared


def both(several: Iterable[set[int] | None]) -> set[int] | None:
    """What is in all of them; None is everything."""
    sets = [each for each in several if each is not None]
    return set.intersection(*sets) if sets else None
