"""The sentence of an alert: a template parsed once and filled in for every alert."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from crossline.basics.streams.inputs import rule_of, several_of
from crossline.basics.texts.problems import Finding, Path, nearest, one_of, shown
from crossline.basics.times import format_duration, rounded_duration

RESERVED = ("value", "threshold", "operator", "window", "count", "rule_id")

PartKind = Literal["text", "value", "threshold", "operator", "window", "count", "figure"]
_PLURAL = re.compile(r"[a-z][a-z_]*[a-rt-z]s", re.ASCII)
_window_text = lru_cache(maxsize=4096)(format_duration)


@dataclass(frozen=True, slots=True)
class Sentence:
    """``parts``: (kind, text or name). A figure is a key field or a figure of the evidence, by name."""

    parts: tuple[tuple[PartKind, str], ...]

    def say(
        self,
        value: float | None,
        threshold: float | None,
        operator: str | None,
        window_ms: int | None,
        key: Mapping[str, Any],
        count: int | None,
        evidence: Mapping[str, Any],
    ) -> str:
        """The sentence for one alert; a figure that is not there reads ``unknown``."""
        out: list[str] = []
        for kind, name in self.parts:  # the most frequent kinds first
            if kind == "text":
                out.append(name)
            elif kind == "figure":
                found = key[name] if name in key else evidence.get(name)
                out.append(found if isinstance(found, str) else figure(found))
            elif kind == "value":
                out.append(number(value))
            elif kind == "threshold":
                out.append(number(threshold))
            elif kind == "window":
                out.append("unknown" if window_ms is None else _window_text(window_ms))
            elif kind == "count":
                out.append(number(count))
            else:
                out.append(operator or "")
        return "".join(out)

    def filled(self, threshold: float | None, operator: str | None, window_ms: int | None) -> Sentence:
        """The same sentence for alerts that all have these: what stands for them is text.

        >>> Sentence((("value", ""), ("text", " in "), ("window", ""))).filled(None, None, 60_000).parts
        (('value', ''), ('text', ' in 60 s'))
        """
        fixed: list[tuple[PartKind, str]] = []
        for part in self.parts:
            same = part[0] in {"threshold", "operator", "window"}
            text = Sentence((part,)).say(None, threshold, operator, window_ms, {}, None, {}) if same else ""
            fixed.append(("text", text) if same else part)
        return Sentence(joined(fixed))


_WRITTEN_OUT = 2**64  # what no field holds, and no person counts, is rounded


def number(value: float | None) -> str:
    """A figure with thousands marked: ``205,000``, ``512.5``; rounded past 64 bits; None is ``unknown``."""
    if value is None:
        return "unknown"
    if abs(value) > _WRITTEN_OUT and not math.isinf(value):
        return f"{Decimal(value):.3e}"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1000 else str(value)
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not value.is_integer():
        return f"{value:,.2f}" if abs(value) >= 100 else f"{value:.4g}"
    return f"{value:,.0f}"


def figure(value: Any) -> str:
    """A value as it stands in the record; ids keep their digits together."""
    if isinstance(value, str):
        return value
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, int) and abs(value) > _WRITTEN_OUT:
        return number(value)
    return ", ".join(map(figure, value)) if isinstance(value, list | tuple) else str(value)


def rounded(value: float) -> str:
    """What was reckoned, to three digits or whole: ``2,007``, ``3.03``, ``0.012``."""
    if math.isinf(value) or abs(value) > _WRITTEN_OUT:
        return number(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def value_text(value: Any, *, timed: bool = False) -> str:
    """A figure or field with its thousands marked; ``timed``: it is milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return figure(value)
    return rounded_duration(value) if timed else number(value)


def parse_description(
    text: str, rule_id: str, allowed: Collection[str] | None, path: Path = ("description",)
) -> tuple[Sentence, list[Finding]]:
    """The template that ``text`` writes, and what is wrong with its placeholders.

    ``allowed``: the names that may stand in braces; None where any field of the record may.
    """
    try:
        pieces = list(string.Formatter().parse(text))
    except ValueError as error:
        return Sentence(()), [Finding(path, shown(text), f"text with {{names}} in braces ({error})", "write { as {{")]
    parts: list[tuple[PartKind, str]] = []
    findings: list[Finding] = []
    for before, name, form, conversion in pieces:
        if before:
            parts.append(("text", before))
        if name is None:
            continue
        if form or conversion:
            findings.append(Finding(path, shown(text), f"{{{name}}} without a format"))
        elif allowed is not None and name not in allowed:
            findings.append(
                Finding(path, f"{{{name}}}", f"in braces {one_of(sorted(allowed))}", nearest(name, allowed))
            )
        elif name == "rule_id":
            parts.append(("text", rule_id))
        else:
            parts.append((name if name in RESERVED else "figure", name))  # type: ignore[arg-type]
    return Sentence(tuple(parts)), findings


def placeholders(text: str) -> tuple[str, ...]:
    """The names that stand in braces in a description that was accepted."""
    return tuple(dict.fromkeys(name for _, name, _, _ in string.Formatter().parse(text) if name))


def unquoted(text: str) -> str:
    """``text`` without what stands in quotes."""
    return re.sub(r""""[^"]*"|'[^']*'""", " ", text)


def noun(stream: str, *, one: bool = False) -> str:
    """What the records of a stream are called: ``payments`` (``payment``), ``hits of r``, ``records of events.raw``."""
    if len(several := stream.split("&")) > 1:
        named = [str(rule_of(each) or each) for each in several]
        return f"hit{'' if one else 's'} of {', '.join(named[:-1])} or {named[-1]}"
    if (ids := several_of(stream)) is not None:
        return f"hit{'' if one else 's'} of {', '.join(ids) if ids else 'any rule'}"
    if (rule_id := rule_of(stream)) is not None:
        return f"hit of {rule_id}" if one else f"hits of {rule_id}"
    if not _PLURAL.fullmatch(stream):
        return f"record of {stream}" if one else f"records of {stream}"
    words = stream.replace("_", " ")
    if not one:
        return words
    return words[:-3] + "y" if words.endswith("ies") else words[:-1]


def key_parts(fields: Sequence[str]) -> list[tuple[PartKind, str]]:
    """`` by account a1, country NO`` as parts; nothing for a global window."""
    parts: list[tuple[PartKind, str]] = []
    for number_, name in enumerate(fields):
        label = name.removesuffix("_id").replace("_", " ")
        parts += [("text", f"{', ' if number_ else ' by '}{label} "), ("figure", name)]
    return parts


def key_text(parts: Sequence[tuple[PartKind, str]], key: Mapping[str, Any]) -> str:
    """`` by account a1, country NO``, of what ``key_parts`` gives; nothing for a global window."""
    return "".join([text if kind == "text" else figure(key.get(text)) for kind, text in parts])


def joined(parts: Sequence[tuple[PartKind, str]]) -> tuple[tuple[PartKind, str], ...]:
    """``parts`` with neighbouring texts made one."""
    out: list[tuple[PartKind, str]] = []
    for kind, text in parts:
        if kind == "text" and out and out[-1][0] == "text":
            out[-1] = ("text", out[-1][1] + text)
        elif kind != "text" or text:
            out.append((kind, text))
    return tuple(out)
