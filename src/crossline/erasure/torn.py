"""Bytes that are no JSON: torn lines, CSV, Avro, texts in UTF-16. It is not known whose they are, so they are searched.

In doubt they have the value: a dead letter too many that goes is no loss, one too few is a trace. So bytes are read as
UTF-8 and as UTF-16, in both orders of bytes and at both alignments. In each text the escapes of JSON are undone, again
and again, since a text in a JSON text is escaped twice. A number has many forms, and is compared as a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from crossline.erasure.subject import Subject, is_distinctive

_ROUNDS_MAX = 4  # of undoing escapes
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NUMBER = re.compile(r"(?<![\w.+-])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_WIDE = ("utf-16-le", "utf-16-be")
_BINARY_CHARS_MIN = 2  # of a value that is looked for inside of words, where bytes are no text
_VARINT_BYTES_MIN = 2  # every other message has some byte


def may_be_torn(raw: bytes, text: str | None) -> bool:
    """Whether bytes need ``has_trace``: quick. ``text``: they as UTF-8, None where they are not."""
    return text is None or "\\" in text or _CONTROL.search(raw) is not None


def has_trace(subject: Subject, raw: bytes, *, distinctive: bool = False) -> bool:
    r"""Whether bytes that are no JSON may have a value of a key, or the id of a record of the person.

    >>> has_trace(Subject((Key("name", "José"),), salt), b'{"name": "Jos\\u00e9", "amou')
    True

    Args:
        subject: Whose traces are erased.
        raw: The bytes.
        distinctive: Look for values and ids alone that are no short numbers or single characters.
    """
    words = tuple(subject.distinctive())
    if distinctive:
        return any(each in text for text in _texts(raw) for each in words)
    values = {key.value for key in subject.keys}
    binary = _is_binary(raw)
    odd = {each for each in values if not is_distinctive(each)}
    inside = (*words, *(each for each in odd if binary and len(each) >= _BINARY_CHARS_MIN))
    short = [re.escape(each) for each in odd.difference(inside)]
    alone = re.compile(rf"(?<![\w-])(?:{'|'.join(short)})(?![\w-])") if short else None
    numbers = {each for each in map(_decimal, values) if each is not None}
    for text in _texts(raw):
        if any(each in text for each in inside) or (alone is not None and alone.search(text)):
            return True
        if numbers and any(_decimal(each) in numbers for each in _NUMBER.findall(text)):
            return True
    return binary and any(each in raw for value in values for each in _varint(value))


def _texts(raw: bytes) -> Iterator[str]:
    """Each way to read the bytes, with escapes and without."""
    plain = [raw.decode(errors="replace")]
    if b"\0" in raw:  # no JSON, CSV or number is without characters of ASCII
        plain += [raw[start:].decode(each, "replace") for each in _WIDE for start in (0, 1)]
    for each in plain:
        text = each
        yield text
        for _ in range(_ROUNDS_MAX):
            if "\\" not in text or (less := _unescaped(text)) == text:
                break
            text = less
            yield text


def _unescaped(text: str) -> str:
    """The text without one layer of JSON escapes; pairs of surrogates are one character."""
    text = _ESCAPE.sub(_character, text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(found: re.Match[str]) -> str:
    digits, letter = found.groups()
    return chr(int(digits, 16)) if digits else _SHORT.get(letter, letter)


def _decimal(text: str) -> Decimal | None:
    """The number that ``text`` is; None where it is none."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond all bounds
        return None


def _is_binary(raw: bytes) -> bool:
    """Whether it is no text in UTF-8: Avro has lengths between its texts, and they may be letters."""
    if _CONTROL.search(raw):
        return True
    try:
        raw.decode()
    except UnicodeDecodeError:
        return True
    return False


def _varint(value: str) -> Iterator[bytes]:
    """An integer as Avro writes it; none where it is no integer, or has a single byte."""
    number = int(value) if re.fullmatch(r"-?\d{1,19}", value, re.ASCII) else 0
    rest, found = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    if len(found) >= _VARINT_BYTES_MIN:
        yield bytes(found)
