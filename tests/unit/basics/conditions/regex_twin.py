"""What Python's engine finds with a pattern of RE2, where it can say the same: another engine, to compare with."""

from __future__ import annotations

import re
from collections.abc import Callable

from crossline.basics.conditions.regex import finds

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_ANCHORS = {"b": r"(?a:\b)", "B": r"(?a:\B)", "A": r"\A", "z": r"\Z"}
_START_FLAGS = re.compile(r"\(\?[sm]+\)")
_HEX = re.compile(r"x[0-9A-Fa-f]{2}")


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether ``pattern``, as RE2 reads it, is found in a text; by Python's engine where that means the same."""
    translated = translate(pattern)
    try:
        compiled = re.compile(translated) if translated is not None else None
    except re.error:
        compiled = None
    if compiled is None:
        return lambda text: finds(pattern, text)
    found = compiled.search
    return lambda text: found(text) is not None


def translate(pattern: str) -> str | None:
    """The RE2 ``pattern`` in Python's syntax; None where it uses what Python does not have or reads otherwise."""
    flags = _START_FLAGS.match(pattern)
    multiline = flags is not None and "m" in flags[0]
    at = flags.end() if flags else 0
    out = [flags[0]] if flags else []
    while at < len(pattern):
        rest = pattern[at:]
        if rest[0] == "\\":
            piece, length = _escape(rest, _outside)
        elif rest[0] == "[":
            piece, length = _class(rest)
        elif rest.startswith("{,") or (rest.startswith("(?") and not rest.startswith(("(?:", "(?P<"))):
            return None
        else:
            piece, length = (r"\Z" if rest[0] == "$" and not multiline else rest[0]), 1
        if piece is None:
            return None
        out.append(piece)
        at += length
    return "".join(out)


def _outside(letter: str) -> str | None:
    if letter in _CLASSES:
        return f"[{_CLASSES[letter]}]"
    if letter.lower() in _CLASSES:
        return f"[^{_CLASSES[letter.lower()]}]"
    return _ANCHORS.get(letter)


def _escape(rest: str, meaning: Callable[[str], str | None]) -> tuple[str | None, int]:
    """The escape that ``rest`` starts with, and its length."""
    letter = rest[1:2]
    if _HEX.match(rest, 1):
        return rest[:4], 4
    if letter in set("tnrfva") or (letter.isascii() and not letter.isalnum()):
        return rest[:2], 2
    return meaning(letter), 2


def _class(rest: str) -> tuple[str | None, int]:
    """The character class that ``rest`` starts with, and its length."""
    at = 2 if rest.startswith("[^") else 1
    out = [rest[:at]]
    first = at
    while at < len(rest):
        letter = rest[at]
        if letter == "]" and at > first:
            return "".join(out) + "]", at + 1
        if rest.startswith(("[:", "--"), at):
            return None, 0
        if letter == "\\":
            piece, length = _escape(rest[at:], _CLASSES.get)
            if piece is None:
                return None, 0
            out.append(piece)
            at += length
            continue
        # Python warns of these inside a class, since they may come to mean set operations.
        out.append("\\" + letter if letter in "[]&~|" else letter)
        at += 1
    return None, 0
