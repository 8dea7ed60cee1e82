"""Reads JSON into plain data and the place of every value, which the standard reader does not report."""

from __future__ import annotations

import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the reader's own, absent from the stubs
from typing import Any

DEPTH_MAX = 64

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None}


class NotJsonError(ValueError):
    """The text is not JSON; it may still be YAML."""


class DuplicateKeyError(ValueError):
    """A key stands twice in one object: ``key``, and the offsets of both."""

    def __init__(self, key: str, first: int, second: int) -> None:
        super().__init__(key)
        self.key, self.first, self.second = key, first, second


# A place is [offset, children]: children by key or index, None for a scalar. A member's offset is that of its key.
Place = list[Any]


def read_json(text: str) -> tuple[Any, Place]:
    """The data of ``text`` and the tree of its places (character offsets).

    Raises NotJsonError, or DuplicateKeyError for an object that names a key twice.
    """
    start = _skip(text, 0)
    data, place, end = _value(text, start, start, 0)
    if _skip(text, end) != len(text):
        raise NotJsonError(text[end : end + 20])
    return data, place


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, offset: int, depth: int) -> tuple[Any, Place, int]:
    if depth > DEPTH_MAX:
        raise NotJsonError("too deeply nested")
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at + 1, offset, depth)
    if first == "[":
        return _array(text, at + 1, offset, depth)
    if first == '"':
        string, end = _string(text, at)
        return string, [offset, None], end
    for word, meaning in _WORDS.items():
        if text.startswith(word, at):
            return meaning, [offset, None], at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        raise NotJsonError(text[at : at + 20])
    digits = number[0]
    is_float = number[1] is not None or number[2] is not None
    return float(digits) if is_float or len(digits) > 40 else int(digits), [offset, None], number.end()


def _string(text: str, at: int) -> tuple[str, int]:
    try:
        string, end = scanstring(text, at + 1, True)
        # An escape may write half a surrogate pair, which is no text that could be stored or sent on.
        if not string.isascii():
            string.encode()
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    return string, end


def _object(text: str, at: int, offset: int, depth: int) -> tuple[Any, Place, int]:
    data: dict[str, Any] = {}
    places: dict[str, Place] = {}
    at = _skip(text, at)
    if text.startswith("}", at):
        return data, [offset, places], at + 1
    while True:
        key_at = _skip(text, at)
        if not text.startswith('"', key_at):
            raise NotJsonError(text[key_at : key_at + 20])
        key, at = _string(text, key_at)
        if key in data:
            raise DuplicateKeyError(key, places[key][0], key_at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise NotJsonError(text[at : at + 20])
        data[key], places[key], at = _value(text, _skip(text, at + 1), key_at, depth + 1)
        at = _skip(text, at)
        if text.startswith("}", at):
            return data, [offset, places], at + 1
        if not text.startswith(",", at):
            raise NotJsonError(text[at : at + 20])
        at += 1


def _array(text: str, at: int, offset: int, depth: int) -> tuple[Any, Place, int]:
    data: list[Any] = []
    places: dict[int, Place] = {}
    at = _skip(text, at)
    if text.startswith("]", at):
        return data, [offset, places], at + 1
    while True:
        at = _skip(text, at)
        value, place, at = _value(text, at, at, depth + 1)
        places[len(data)] = place
        data.append(value)
        at = _skip(text, at)
        if text.startswith("]", at):
            return data, [offset, places], at + 1
        if not text.startswith(",", at):
            raise NotJsonError(text[at : at + 20])
        at += 1
