"""Finds cases by words, ids and numbers, and by values that their alerts have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.rows import DIGITS_MAX

FOUND_MAX = 2_000  # texts that one search takes, the latest
BEGUN_MAX = 64  # words that a beginning stands for
_LAST = "\U0010ffff"
_PARTS = re.compile(r"\w+")  # what the index takes for one word
_NUMBER = re.compile(r"[cC]-([0-9]+)", re.ASCII)
_OF_ALERTS = """SELECT DISTINCT c.case_seq FROM (SELECT rowid AS r FROM texts WHERE texts MATCH ? ORDER BY rowid DESC
LIMIT ?) JOIN alerts AS a ON a.number = r / 2 JOIN case_alerts AS c ON c.alert_id = a.alert_id WHERE r % 2 = 0"""
_OF_EVENTS = """SELECT DISTINCT k.seq FROM (SELECT rowid AS r FROM texts WHERE texts MATCH ? ORDER BY rowid DESC
LIMIT ?) JOIN case_events AS e ON e.number = r / 2 JOIN cases AS k ON k.case_id = e.case_id WHERE r % 2 = 1"""


def matching_rows(file: CaseFile, text: str) -> set[int]:
    """The rows of cases in which all words of ``text`` stand, in one alert or note.

    Where there is none, each word may be cut short at its end.
    A number such as C-2041 is that case alone. Of more than ``FOUND_MAX`` texts the latest count.
    """
    number = _NUMBER.fullmatch(text.strip())
    if number is not None:
        return {int(number[1])} if len(number[1]) < DIGITS_MAX else set()
    for match in matches(file, text):
        matching = _matching(file, match)
        if matching:
            return matching
    return set()


def matches(file: CaseFile, text: str) -> Iterator[str]:
    """How the index of texts is asked: for all words whole, then for words that begin with each.

    Of more than ``BEGUN_MAX`` words that begin with one the first in their order count, so that what is typed costs
    no more than that.
    """
    words = [each for each in text.replace("\0", " ").split() if any(one.isalnum() for one in each)]
    if words:
        yield " ".join('"' + each.replace('"', '""') + '"' for each in words)
        begun = [_words_with_prefix(file, each) for each in _PARTS.findall(" ".join(words)) if each.strip("_")]
        if all(begun):
            yield " AND ".join(f"({' OR '.join(each)})" for each in begun)


def _words_with_prefix(file: CaseFile, word: str) -> list[str]:
    """The words of the index that begin with ``word``, as the index has them: small, and without accents."""
    plain = "".join(each for each in unicodedata.normalize("NFD", word.lower()) if not unicodedata.combining(each))
    rows = file.rows(
        "SELECT term FROM temp.words WHERE term >= ? AND term < ? LIMIT ?", (plain, plain + _LAST, BEGUN_MAX)
    )
    return [f'"{each["term"]}"' for each in rows]


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
