"""Hostile bytes as people can look at them: nothing of them steers the page, and no more is shown than is read."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.serve.console.layout.numbers import counted
from crossline.serve.console.pages.dead_letters.context import HexLine

SOME_CHARS, TEXT_CHARS, HEX_BYTES, PER_LINE = 120, 16_384, 512, 16
REPLACED = "\N{REPLACEMENT CHARACTER}"


def bytes_of(letter: Mapping[str, Any]) -> bytes | None:
    """The bytes from the API; None if they were not stored."""
    if letter["raw_base64"] is not None:
        return base64.b64decode(letter["raw_base64"])
    return None if letter["raw"] is None else str(letter["raw"]).encode()


def some_of(letter: Mapping[str, Any]) -> str:
    """The first of them in one line."""
    raw = bytes_of(letter)
    if raw is None:
        return "its bytes were not kept"
    text = raw[: SOME_CHARS * 4].decode(errors="backslashreplace")
    return printable(text[:SOME_CHARS]) + ("…" if len(text) > SOME_CHARS or letter["cut"] else "")


def size_of(letter: Mapping[str, Any]) -> str:
    """How many there are."""
    return "" if letter["bytes"] is None else counted(letter["bytes"], "byte")


def text_of(raw: bytes) -> str:
    """As text, what does not print written out; empty if they are no UTF-8."""
    try:
        return printable_lines(raw.decode()[:TEXT_CHARS].replace("\r", "\\r"))
    except UnicodeDecodeError:
        return ""


def hex_lines(raw: bytes) -> Iterator[HexLine]:
    r"""The first ``HEX_BYTES`` in hex, and beside them what of it is ASCII that prints.

    >>> [(each.at, each.octets, each.text) for each in hex_lines(b"a\xff<")]
    [('0000', '61 ff 3c', 'a.<')]
    """
    for at in range(0, min(len(raw), HEX_BYTES), PER_LINE):
        some = raw[at : min(at + PER_LINE, HEX_BYTES)]
        yield HexLine(f"{at:04x}", some.hex(" "), "".join(chr(each) if 32 <= each < 127 else "." for each in some))


def read_of(avro: Mapping[str, Any] | None) -> tuple[str, str]:
    """A record of Avro as JSON, and why no more of it could be read; both empty if it is none."""
    if avro is None:
        return "", ""
    record = avro["record"]
    text = "" if record is None else orjson.dumps(record, option=orjson.OPT_INDENT_2).decode()
    if avro["broke"] is None:
        return text, ""
    by = "" if avro["schema"] is None else f" by schema {avro['schema']}"
    return text, f"Read{by} up to byte {avro['read_bytes']}: {avro['broke']}."


def draft_of(raw: bytes | None) -> tuple[str, str]:
    """What a form begins with, and what of the bytes that is not."""
    if raw is None:
        return "", "Its bytes were not stored: write the record as it should have been."
    text = raw.decode(errors="replace")
    kept = "".join(each if each.isprintable() or each in "\n\t" else REPLACED for each in text)
    changed = sum(one != REPLACED and other == REPLACED for one, other in zip(text, kept, strict=True))
    broken = 0 if _is_utf8(raw) else text.count(REPLACED)
    count = broken + changed
    if not count:
        return kept, ""
    have = "has" if count == 1 else "have"
    return kept, f"{counted(count, 'place')} could not be copied, and {have} the sign {REPLACED}."


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
