"""Principals: who publishes and who approves. Their names are of a stated alphabet, and are compared by their look."""

from __future__ import annotations

import re
import unicodedata

from crossline.basics.message import TopicMessage

ALPHABET = "letters a-z and A-Z, digits and . _ - + @ / \\ : = , $ ', with single blanks between them"
LENGTH_MAX = 200
_LETTER = r"[A-Za-z0-9._+@/\\:=,$'-]"
_NAME = re.compile(f"{_LETTER}(?: ?{_LETTER})*")
_ALLOWED = re.compile(f"{_LETTER}| ")
# Of what the alphabet has, letters that look alike without case (Unicode's TR 39, and vv).
_LOOKS = str.maketrans({"i": "l", "1": "l", "0": "o"})


def name_problem(name: str) -> str | None:
    """Why ``name`` is no principal's, as what was found; None where it is one."""
    if len(name) <= LENGTH_MAX and _NAME.fullmatch(name) is not None:
        return None
    if not name:
        return "a name without a character"
    for place, letter in enumerate(name, 1):
        if _ALLOWED.fullmatch(letter) is None:
            return f"a name whose character {place} is {_named(letter)}"
    if len(name) > LENGTH_MAX:
        return f"a name of {len(name):,} characters, more than {LENGTH_MAX},"
    return "a name with a blank at its begin or end, or with two in a row"


def principal_of(message: TopicMessage, header: str) -> tuple[str | None, str | None]:
    """The principal that the last header called ``header`` names, if it names one, and why it does not."""
    found = next((value for key, value in reversed(message.headers) if key == header), None)
    if not found or not found.strip():
        return None, None
    try:
        name = found.decode()
    except UnicodeDecodeError:
        return None, "a name that is not UTF-8"
    problem = name_problem(name)
    return (name, None) if problem is None else (None, problem)


def same_principal(one: str | None, other: str | None) -> bool:
    """Whether two names may be of one principal; so may a missing name, and one that looks like others."""
    if one is None or other is None or name_problem(one) is not None or name_problem(other) is not None:
        return True
    return _look(one) == _look(other)


def _look(name: str) -> str:
    """The look of a name: without case, and with one character for those that look alike."""
    return name.casefold().translate(_LOOKS).replace("rn", "m").replace("vv", "w")


def _named(letter: str) -> str:
    """``U+FE0F (VARIATION SELECTOR-16)``: the code point and the name of a letter, also of an invisible one."""
    kind = "a control character" if unicodedata.category(letter) == "Cc" else "without a name"
    return f"U+{ord(letter):04X} ({unicodedata.name(letter, kind)})"
