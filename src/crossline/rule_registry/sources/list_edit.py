"""Edits of list files: an entry comes, gets another end, or goes; comments and layout stay where they can."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crossline.basics.conditions.lists import Entry
from crossline.basics.conditions.tree import Literal, literal
from crossline.basics.errors import PermanentError, UsageError
from crossline.basics.texts.problems import RefusedError, nearest, one_of, shown
from crossline.basics.texts.yamltext import load_yaml
from crossline.basics.times import FOREVER_MS, format_instant
from crossline.rule_registry.atomic_files import held, replace_file
from crossline.rule_registry.content import FileContent, is_folder, text_of
from crossline.rule_registry.list_file import LIST_BYTES_MAX, list_name, read_list
from crossline.rule_registry.lists import folder_of_lists
from crossline.rule_registry.sources.folder import Files


def entry_text(value: Literal) -> str:
    """A value as keys and addresses name it: text as it is, else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True, slots=True)
class ListEntry:
    """An entry of the list ``name``; ``until_ms``: the ingest time from which on it stands there no more."""

    name: str
    value: Literal
    until_ms: int = FOREVER_MS

    def to_json(self) -> dict[str, Any]:
        """The JSON of the API."""
        until = None if self.until_ms == FOREVER_MS else format_instant(self.until_ms)
        return {"list": self.name, "value": self.value, "until": until}


Check = Callable[[ListEntry | None], None]  # of what stands there now: it raises where that must not be changed


class ListFolder:
    """The list files of a folder, and changes to them: one command at a time, each file whole."""

    def __init__(self, path: Path) -> None:
        if not is_folder(path):
            raise UsageError(f"found no folder {path}; expected the folder of the lists: make it, or name another")
        self.path = path

    def files(self) -> Files:
        """The list files as they stand."""
        return folder_of_lists(self.path).changed() or {}

    def put(self, name: str, value: Literal, until_ms: int, check: Check) -> tuple[ListEntry, bool]:
        """Put ``value`` into the list until then. Returns the entry, and whether the value was there before.

        Raises PermanentError where there is no such list, or its file has no ends; RefusedError where it is wrong;
        RetryableError where another program changes it at this moment.
        """
        new = ListEntry(name, value, until_ms)
        with held(self.path):
            source, content = self._one(name)
            known = found(name, read_list(source, content), value)
            check(known)
            if known != new:
                self._write(source, content, _with(source, content, new))
            return new, known is not None

    def remove(self, name: str, text: str, check: Check) -> ListEntry | None:
        """Take the entry out of the list; None where it is not there, which ``check`` may refuse."""
        with held(self.path):
            source, content = self._one(name)
            known = named(name, read_list(source, content), text)
            check(known)
            if known is not None:
                self._write(source, content, _without(source, content, known))
            return known

    def _one(self, name: str) -> tuple[str, FileContent]:
        files = self.files()
        sources = {list_name(source): source for source in files}
        if name not in sources:
            raise no_list(name, list(sources))
        return sources[name], files[sources[name]]

    def _write(self, source: str, before: FileContent, data: bytes) -> None:
        read_list(source, FileContent(data))  # the last look: what a pipeline would refuse is not written
        replace_file(self.path / source, data, before)


def no_list(name: str, known: Sequence[str]) -> PermanentError:
    """The error for a list that is nowhere."""
    hint = nearest(name, known)
    there = one_of(sorted(known)) if known else "a list file in the folder"
    return PermanentError(f"found no list {shown(name)}; expected {there}" + (f"; {hint}" if hint else ""))


def found(name: str, entries: Sequence[Entry], value: Literal) -> ListEntry | None:
    """The entry of that value, to its latest end; True is not 1."""
    ends = [until_ms for each, until_ms in entries if _same(each, value)]
    return ListEntry(name, value, max(ends)) if ends else None


def named(name: str, entries: Sequence[Entry], text: str) -> ListEntry | None:
    """The entry whose value is written so; of text before that of numbers."""
    values = [value for value, _ in entries if entry_text(value) == text]
    value = next((each for each in values if isinstance(each, str)), values[0] if values else None)
    return None if value is None else found(name, entries, value)


def _with(source: str, content: FileContent, new: ListEntry) -> bytes:
    if source.endswith(".txt"):
        return _text_with(source, content, new)
    text = text_of(source, content)
    data = _data(source, text)
    kept = [each for each in data if not _is(each, new.value)]
    left = text if len(kept) == len(data) else _lines_without(source, text, data, new)
    edited = None if left is None else _appended(left, new)
    return _proved(source, edited, [*kept, _written(new)])


def _without(source: str, content: FileContent, gone: ListEntry) -> bytes:
    text = text_of(source, content)
    if source.endswith(".txt"):
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if line.strip() != gone.value).encode()
    data = _data(source, text)
    kept = [each for each in data if not _is(each, gone.value)]
    return _proved(source, _lines_without(source, text, data, gone), kept)


def _text_with(source: str, content: FileContent, new: ListEntry) -> bytes:
    if new.until_ms != FOREVER_MS:
        raise PermanentError(
            f"list {new.name} stands in {source}, whose lines have no ends; expected {new.name}.yaml for an entry with "
            "an end"
        )
    value = new.value
    if not isinstance(value, str) or value.splitlines() != [value.strip()] or value.startswith("#"):
        raise PermanentError(
            f"found {shown(value)} for list {new.name}, which stands in {source}; expected a text of one line, without "
            "blanks around it, that does not begin with #"
        )
    text = text_of(source, content)
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{value}\n".encode()


def _data(source: str, text: str) -> list[Any]:
    data: list[Any] = load_yaml(text, source, LIST_BYTES_MAX).data
    return data


def _is(entry: Any, value: Literal) -> bool:
    return _same(literal(entry.get("value") if isinstance(entry, dict) else entry), value)


def _same(one: Literal | None, other: Literal) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _written(entry: ListEntry) -> Any:
    if entry.until_ms == FOREVER_MS:
        return entry.value
    return {"value": entry.value, "until": format_instant(entry.until_ms)}


def _appended(text: str, new: ListEntry) -> str | None:
    """``text`` with a line more; None where it is no list of a line an entry."""
    if text.lstrip()[:1] in {"[", "{"}:
        return None
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}- {json.dumps(_written(new), ensure_ascii=False)}\n"


def _lines_without(source: str, text: str, data: Sequence[Any], gone: ListEntry) -> str | None:
    """``text`` without the lines of the entry; None where these are not its own."""
    if text.lstrip()[:1] in {"[", "{"}:
        return None
    document = load_yaml(text, source, LIST_BYTES_MAX)
    lines = list(document.lines)
    starts = [document.position((number,))[0] - 1 for number in range(len(data))]
    ends = [*starts[1:], len(lines)]
    for number in reversed([number for number, each in enumerate(data) if _is(each, gone.value)]):
        # Comments before the next entry are of that one.
        end = starts[number] + 1
        while end < ends[number] and not lines[end].lstrip().startswith(("#", "-")) and lines[end].strip():
            end += 1
        del lines[starts[number] : end]
    return "".join(lines)


def _proved(source: str, edited: str | None, expected: Sequence[Any]) -> bytes:
    """``edited``, if its values are ``expected``; else ``expected``, written anew."""
    if edited is not None:
        try:
            if (load_yaml(edited, source, LIST_BYTES_MAX).data or []) == list(expected) and expected:
                return edited.encode()
        except RefusedError:
            pass
    if source.endswith(".json"):
        return (json.dumps(list(expected), ensure_ascii=False, indent=1) + "\n").encode()
    return yaml.safe_dump(list(expected), sort_keys=False, allow_unicode=True).encode()
