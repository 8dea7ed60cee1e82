"""The traces of a person: values of key fields, ids of records, and what replaces them.

A row *of* the person is one whose field has the value, whose key has it, or which is about one of the person's records.
It is removed. A row of others may *mention* the person: an id among its evidence, the value in its message. The mention
is replaced by a pseudonym, and the row keeps its figures.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from crossline.basics.errors import UsageError

PSEUDONYM = "erased-"
FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")
_DIGEST_BYTES = 8
_WORD = re.compile(r"[\w-]+")
_TERM = re.compile(r"[^\s\"'`,;()\[\]{}<>=|]+")  # an id with other characters: between blanks, quotes and brackets
_ENDS = ".:!?"
_EXPONENT = re.compile(r"\d[eE][+-]?\d")  # 1e5 is the number 100000
_NUMBER_DIGITS_MIN = 6  # a shorter number in a text is rather a figure
# Fields that hold ids of records: there short numbers are ids as well.
_ID_FIELDS = frozenset(
    ("_record_id", "record_id", "record_ids", "caused_by", "id", "known", "row_id", "records", "said")
)
_OWN_ID_FIELDS = ("record_id", "_record_id")
_BLANKS = " \t\n\r"
_DEPTH_MAX = 2  # of objects in a row that make it one of the person


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """A value of a field. ``field`` has dots where it is nested; ``value`` is the value as text."""

    field: str
    value: str

    @staticmethod
    def parse(text: str) -> Key:
        """The key that ``FIELD=VALUE`` names.

        >>> Key.parse("account_id=a7")
        Key(field='account_id', value='a7')

        Raises:
            UsageError: It is not of that form, or the value is empty.
        """
        name, mark, value = text.partition("=")
        if not mark or not name.strip() or not value:
            raise UsageError(f"--key: found {text!r}; expected FIELD=VALUE, for example account_id=a7")
        return Key(name.strip(), value)

    @property
    def leaf(self) -> str:
        """The last part of the field's name."""
        return self.field.rpartition(".")[2]

    def has(self, value: Any) -> bool:
        """Whether a value of a record is this one; of a list, whether one of its values is."""
        if isinstance(value, list | tuple):
            return any(self.has(each) for each in value)
        return as_text(value) == self.value

    def within(self, row: Mapping[str, Any]) -> bool:
        """Whether ``row`` has the value in the field: by its dotted name, or nested."""
        if self.field in row:
            return self.has(row[self.field])
        found: Any = row
        for name in self.field.split("."):
            if not isinstance(found, Mapping) or name not in found:
                return False
            found = found[name]
        return self.has(found)


def with_forms(keys: Iterable[Key]) -> tuple[Key, ...]:
    """``keys``, each with its value in the two canonical forms of Unicode, NFC and NFD, where they differ.

    They are the same text for people, and other keys for the pipeline. The compatibility forms are not looked for: they
    make one text of ``a²`` and ``a2``, which may be two persons.
    """
    found = (
        Key(key.field, value)
        for key in keys
        for value in (key.value, *(unicodedata.normalize(form, key.value) for form in FORMS))
    )
    return tuple(dict.fromkeys(found))


def form_of(value: str) -> str | None:
    """The canonical form that a value is in; None where it is in both, as ASCII is, ``mixed`` where in neither."""
    forms = [each for each in FORMS if unicodedata.is_normalized(each, value)]
    return None if len(forms) == len(FORMS) else "".join(forms) or "mixed"


def as_text(value: Any) -> str | None:
    """A scalar as people write it; None for null and for what is no scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, str | int | float) else None


def is_distinctive(text: str) -> bool:
    """Whether ``text`` in the middle of other text can only be this value: no short number, no single character."""
    if text in {"true", "false"} or len(text) < 2:
        return False
    return not (text.isdigit() and len(text) < _NUMBER_DIGITS_MIN)


@dataclass(slots=True)
class Subject:
    """Whose traces are erased.

    Attributes:
        keys: The values by which the person is known.
        salt: Secret of this erasure; pseudonyms are made with it, and it is thrown away at the end.
        ids: By stream, the ids of the person's records, as far as they were found.
        notes: What one table of a place tells another one.
        met: The keys whose values stand in the fields of rows, as far as places were looked at.
    """

    keys: tuple[Key, ...]
    salt: bytes
    ids: dict[str, set[str]] = field(default_factory=dict)
    notes: dict[str, set[str]] = field(default_factory=dict)
    met: set[Key] = field(default_factory=set)
    _words: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _values: re.Pattern[str] | None = None  # of keys that are no word
    _terms: set[str] = field(default_factory=set)  # ids that are no word
    _forms: tuple[str, ...] = ()  # values of keys, as texts and JSON have them
    _has_numbers: bool = False  # among values and ids

    def __post_init__(self) -> None:
        values = [key.value for key in self.keys if is_distinctive(key.value)]
        self._words |= {each for each in values if _WORD.fullmatch(each)}
        odd = sorted(set(values) - self._words, key=len, reverse=True)
        if odd:
            self._values = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, odd))})(?![\w-])")
        self._forms = tuple({form for key in self.keys for form in (key.value, *_escaped(key.value))})
        self._has_numbers = any(_is_number(key.value) for key in self.keys)
        for stream, found in list(self.ids.items()):
            self.ids[stream] = set()
            self.add(stream, found)

    def add(self, stream: str | None, record_ids: Iterable[Any]) -> None:
        """Add ids of the person's records."""
        mine = self.ids.setdefault(stream or "", set())
        for each in record_ids:
            text = as_text(each)
            if text and not text.startswith(PSEUDONYM) and text not in mine:
                mine.add(text)
                self._known.add(text)
                self._has_numbers = self._has_numbers or _is_number(text)
                if is_distinctive(text):
                    (self._words if _WORD.fullmatch(text) else self._terms).add(text)

    def count(self) -> int:
        """How many record ids are known."""
        return sum(map(len, self.ids.values()))

    def is_id(self, stream: str | None, text: Any) -> bool:
        """Whether it is the id of a record of the person; without a stream, in any stream."""
        known = as_text(text)
        if known is None or known not in self._known:
            return False
        return stream is None or known in self.ids.get(stream, ()) or known in self.ids.get("", ())

    def pseudonym(self, text: str) -> str:
        """What replaces ``text``: the same for the same text in one erasure, and no way back from it."""
        return PSEUDONYM + hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES, key=self.salt).hexdigest()

    def owns(self, row: Mapping[str, Any], stream: str | None = None, depth: int = 0) -> bool:
        """Whether a row is of the person. Objects in lists do not count: an alert of others may show such records."""
        given = row.get("stream")
        stream = given if isinstance(given, str) else stream
        own = [
            key for key in self.keys if key.within(row) or (row.get("field") == key.field and key.has(row.get("value")))
        ]
        if own:
            self.met.update(own)
            return True
        if any(name in row and self.is_id(stream, row[name]) for name in _OWN_ID_FIELDS):
            return True
        inner = (each for each in row.values() if isinstance(each, Mapping))
        return depth < _DEPTH_MAX and any(self.owns(each, stream, depth + 1) for each in inner)

    def suspects(self, text: str) -> bool:
        """Whether a text may have a trace: quick, and never False where there is one.

        JSON may write any character as an escape, and a number with an exponent: such a text may have any value.
        """
        if "\\" in text or any(form in text for form in self._forms) or text in self._known:
            return True
        if self._has_numbers and _EXPONENT.search(text):
            return True
        if self._known and not self._known.isdisjoint(_WORD.findall(text)):
            return True
        return bool(self._terms) and not self._terms.isdisjoint(_terms(text))

    def mentions(self, text: str) -> bool:
        """Whether a text has a distinctive trace."""
        return self.scrub_text(text) != text

    def scrub_text(self, text: str) -> str:
        """A text with pseudonyms in the place of distinctive traces."""
        if text in self._terms:
            return self.pseudonym(text)
        if self._values is not None:
            text = self._values.sub(lambda found: self.pseudonym(found[0]), text)
        if self._terms:
            text = _TERM.sub(lambda found: self._of_term(found[0]), text)
        return _WORD.sub(lambda found: self._instead(found[0]), text) if self._words else text

    def scrub(self, value: Any, stream: str | None = None, name: str = "") -> Any:
        """JSON values with pseudonyms in the place of traces.

        Args:
            value: The value; it is not changed.
            stream: The stream that its ids are of; None: the one that an object around names, or any.
            name: The field that has it.
        """
        if isinstance(value, Mapping):
            given = value.get("stream")
            stream = given if isinstance(given, str) else stream
            return {self.scrub_text(key): self.scrub(each, stream, key) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.scrub(each, stream, name) for each in value]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return value
        text = str(as_text(value))
        in_field = any(name in {key.field, key.leaf} and key.value == text for key in self.keys)
        if in_field or (name in _ID_FIELDS and self.is_id(stream, text)):
            return self.pseudonym(text)
        return self._scrub_string(value, stream, name) if isinstance(value, str) else value

    def _scrub_string(self, text: str, stream: str | None, name: str) -> str:
        inner = parsed(text)
        if inner is None:
            return self.scrub_text(text)
        again = self.scrub(inner, stream, name) if self.suspects(text) else inner
        return text if again == inner else dumped(again)

    def shown(self) -> list[str]:
        """The keys for a receipt: names of fields, and pseudonyms of values."""
        return [f"{key.field}={self.pseudonym(key.value)}" for key in self.keys]

    def distinctive(self) -> Iterator[str]:
        """The values and ids that a search of bytes can look for."""
        yield from (text for text in {*(key.value for key in self.keys), *self._known} if is_distinctive(text))

    def _of_term(self, term: str) -> str:
        known = term.rstrip(_ENDS)
        return self.pseudonym(known) + term[len(known) :] if known in self._terms else term

    def _instead(self, word: str) -> str:
        return self.pseudonym(word) if word in self._words else word


def parsed(text: str, of_pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The JSON object or list that ``text`` is; None for any other text. ``of_pairs``: makes its objects."""
    if text.lstrip(_BLANKS)[:1] not in {"{", "["}:
        return None
    try:
        found = json.loads(text, object_pairs_hook=of_pairs)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def dumped(value: Any) -> str:
    """``value`` as JSON in one line; numbers stay as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _terms(text: str) -> Iterator[str]:
    for term in _TERM.findall(text):
        yield term
        yield term.rstrip(_ENDS)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _escaped(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
