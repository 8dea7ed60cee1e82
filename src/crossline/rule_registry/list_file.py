"""List files: ``cards.txt`` with a value a line, or ``cards.yaml`` with values, some of which may end."""

from __future__ import annotations

from typing import Any

from crossline.basics.conditions.lists import Entry
from crossline.basics.conditions.tree import literal
from crossline.basics.texts.problems import Path, nearest, shown
from crossline.basics.texts.report import Report
from crossline.basics.texts.yamltext import load_yaml
from crossline.basics.times import FOREVER_MS, INSTANT_FORM, parse_instant_ms
from crossline.rule_registry.content import FileContent, text_of

SUFFIXES = (".txt", ".yaml", ".yml", ".json")
LIST_BYTES_MAX = 64 * 2**20
_FORM = "text, a finite number up to 64 bits, true or false"
_NAMES = ("value", "until")
_ENDS = ("expires", "expires_at", "expiry", "valid_until", "end", "ends")


def list_name(source: str) -> str:
    """The name of the list that stands in the file ``source``."""
    return source.rpartition(".")[0]


def read_list(source: str, content: FileContent) -> list[Entry]:
    """The entries of a list file. In text, blank lines and lines that start with # count for nothing.

    In YAML and JSON an entry is a value, or ``{value: v, until: INSTANT}``. Raises RefusedError with all that is wrong.
    """
    text = text_of(source, content)
    if source.endswith(".txt"):
        lines = (line.strip() for line in text.splitlines())
        return [(line, FOREVER_MS) for line in lines if line and not line.startswith("#")]
    document = load_yaml(text, source, LIST_BYTES_MAX)
    report = Report(document)
    entries: list[Entry] = []
    if not isinstance(document.data, list):
        report.add((), shown(document.data), "a list of values")
    else:
        for number, entry in enumerate(document.data):
            entries += _entry(entry, (number,), report)
    report.raise_if_any()
    return entries


def _entry(entry: Any, path: Path, report: Report) -> list[Entry]:
    """The entry; none where it is wrong, which is reported."""
    given = entry if isinstance(entry, dict) else {"value": entry}
    for name in [name for name in given if name not in _NAMES]:
        report.add((*path, name), shown(name), "value or until", _hint(name))
    value, until_ms = literal(given.get("value")), FOREVER_MS
    if value is None:
        found = shown(given["value"]) if "value" in given else "nothing"
        report.add((*path, "value") if given is entry and "value" in given else path, found, _FORM)
    if "until" in given:
        try:
            until_ms = parse_instant_ms(given["until"])
        except ValueError:
            report.add((*path, "until"), shown(given["until"]), INSTANT_FORM)
    return [] if value is None else [(value, until_ms)]


def _hint(name: Any) -> str | None:
    return "did you mean until?" if name in _ENDS else nearest(str(name), _NAMES)
