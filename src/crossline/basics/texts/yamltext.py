"""Reads YAML or JSON text into plain data that remembers where each value stands.

Plain values are read as YAML 1.2 reads them: ``no``, ``on`` and ``2026-01-01`` are text (a country code NO is not
false), and so are digits with leading zeros, since codes such as 0742 are text in records.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import yaml

from crossline.basics.texts.jsontext import DEPTH_MAX, DuplicateKeyError, NotJsonError, Place, read_json
from crossline.basics.texts.problems import Problem, RefusedError, crop, cut

Path = tuple[str | int, ...]

VALUES_MAX = 2_000_000
# Bytes that a text holds once each alias, which copies with three bytes, is written out as what it names.
SIZE_MAX = 16 * 2**20
# What a value weighs beside its text: quotes and a comma, or a number.
_VALUE_SIZE = 4
_INT = re.compile(r"[-+]?(?:0|[1-9]\d{0,39})", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9]\d*)?\.\d+|(?:0|[1-9]\d*)\.?)(?:[eE][-+]?\d+)?", re.ASCII)
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """The content of a file: ``data`` (the value; a list of the documents where there are several) and positions."""

    source: str
    text: str
    data: Any
    _places: Place
    _by_offset: bool

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column, from 1, of the value at ``path`` (of its key, in a mapping), or of its nearest ancestor."""
        place = self._places
        for step in path:
            children = place[1]
            if children is None or step not in children:
                break
            place = children[step]
        if not self._by_offset:
            line, column = place[0]
            return line, column
        line = bisect_right(self._line_starts, place[0])
        return line, place[0] - self._line_starts[line - 1] + 1

    def snippet(self, path: Path) -> str:
        """The source line at ``path``, cut to a readable width around it."""
        return crop(self.lines, *self.position(path))

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their ends, as ``position`` counts them: JSON and YAML know other ends of a line."""
        return _json_lines(self.text) if self._by_offset else self.text.splitlines(keepends=True)

    @cached_property
    def _line_starts(self) -> list[int]:
        return list(accumulate(map(len, self.lines[:-1]), initial=0))


def load_yaml(text: str, source_name: str, size_max: int = SIZE_MAX) -> Document:
    """Read ``text`` (YAML or JSON; several YAML documents become a list).

    Raises RefusedError for what cannot be read: syntax, a key named twice, tags, too deep or too large structures.
    ``size_max``: bytes of the text, and of its values once aliases are written out.
    """
    text = text.removeprefix("\ufeff")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise RefusedError([Problem(source_name, line, "", "half a surrogate pair", "text")]) from None
    if size > size_max:
        raise _refusal([], source_name, (1, 1), f"{size:,} bytes", f"at most {size_max:,} bytes in a file")
    if text.lstrip()[:1] in {"{", "["}:
        try:
            data, places = read_json(text)
            return Document(source_name, text, data, places, _by_offset=True)
        except DuplicateKeyError as error:
            twice = Document(source_name, text, None, [error.second, None], _by_offset=True)
            first = Document(source_name, text, None, [error.first, None], _by_offset=True)
            once = _once(first.position(()))
            raise _refusal(twice.lines, source_name, twice.position(()), f'"{error.key}" a second time', once) from None
        except NotJsonError:
            pass
    data, place = _Builder(text, source_name, size_max).build()
    return Document(source_name, text, data, place, _by_offset=False)


def _json_lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), last]


def _once(first: tuple[int, int]) -> str:
    return f"each key once; it stands on line {first[0]} already"


def _refusal(lines: Sequence[str], source: str, at: tuple[int, int], found: str, expected: str) -> RefusedError:
    return RefusedError([Problem(source, at[0], "", cut(found), cut(expected), None, crop(lines, *at))])


class _Frame:
    """A mapping or sequence being read: its data, its places, and the key that waits for its value."""

    __slots__ = ("data", "key", "key_at", "place")

    def __init__(self, data: Any, place: Place) -> None:
        self.data = data
        self.place = place
        self.key: str | None = None
        self.key_at = (0, 0)


class _Builder:
    """Builds from the parser's events with a stack of its own: hostile nesting meets a limit, not the C stack."""

    def __init__(self, text: str, source: str, size_max: int) -> None:
        self.text = text
        self.source = source
        self.size_max = size_max
        self.stack: list[_Frame] = []
        self.documents: list[tuple[Any, Place]] = []
        self.anchors: dict[str, tuple[Any, Place]] = {}
        self.values = 0
        self.size = 0

    def build(self) -> tuple[Any, Place]:
        try:
            for event in yaml.parse(self.text, Loader=_LOADER):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            at = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            where = error.context_mark
            within = f" {error.context} that starts on line {where.line + 1}" if error.context and where else ""
            raise self._refuse(at, f"a syntax error: {error.problem}{within}", "valid YAML or JSON") from None
        except yaml.reader.ReaderError as error:
            raise self._refuse((1, 1), f"a character that may not stand in YAML: {error.reason}", "text") from None
        if len(self.documents) == 1:
            return self.documents[0]
        if not self.documents:
            return None, [(1, 1), None]
        return [data for data, _ in self.documents], [(1, 1), dict(enumerate(place for _, place in self.documents))]

    def _take(self, event: yaml.Event) -> None:
        mark = event.start_mark
        at = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, at)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open(event, at)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self.stack.pop()
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise self._refuse(at, f"*{event.anchor}", "the name of an anchor that stands before it")
                data, place = self.anchors[event.anchor]
                if any(frame.data is data for frame in self.stack):
                    raise self._refuse(at, f"*{event.anchor} inside itself", "a value that does not contain itself")
                self._check_size(at, *measure(data, VALUES_MAX, self.size_max))
                self._put(data, [at, place[1]], at)
            case yaml.DocumentStartEvent():
                self.anchors = {}
            case _:
                pass

    def _scalar(self, event: yaml.ScalarEvent, at: tuple[int, int]) -> None:
        if event.tag not in {None, "!", "tag:yaml.org,2002:str"}:
            raise self._refuse(at, f"tag {event.tag}", "a value without a tag")
        self._check_size(at, 1, size_of(event.value))
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.data, dict) and frame.key is None:
            if event.value in frame.data:
                raise self._refuse(at, f'"{event.value}" a second time', _once(frame.place[1][event.value][0]))
            frame.key, frame.key_at = event.value, at
            return
        value = _plain(event.value) if event.implicit[0] else event.value
        place = self._put(value, [at, None], at)
        if event.anchor:
            self.anchors[event.anchor] = (value, place)

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent, at: tuple[int, int]) -> None:
        if event.tag not in {None, "!"}:
            raise self._refuse(at, f"tag {event.tag}", "a value without a tag")
        if len(self.stack) >= DEPTH_MAX:
            raise self._refuse(at, f"more than {DEPTH_MAX} levels of nesting", "a flatter structure")
        if self.stack and isinstance(self.stack[-1].data, dict) and self.stack[-1].key is None:
            raise self._refuse(at, "a mapping or list as a key", "a name as a key")
        self._check_size(at, 1, _VALUE_SIZE)
        data: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        place = self._put(data, [at, {}], at)
        self.stack.append(_Frame(data, place))
        if event.anchor:
            self.anchors[event.anchor] = (data, place)

    def _put(self, value: Any, place: Place, at: tuple[int, int]) -> Place:
        """Hang ``value`` where the parser stands; a member of a mapping is placed at its key."""
        if not self.stack:
            self.documents.append((value, place))
            return place
        frame = self.stack[-1]
        if isinstance(frame.data, list):
            frame.place[1][len(frame.data)] = place
            frame.data.append(value)
        elif frame.key is None:
            raise self._refuse(at, "an alias as a key", "a name as a key")
        else:
            place[0] = frame.key_at
            frame.data[frame.key], frame.place[1][frame.key] = value, place
            frame.key = None
        return place

    def _check_size(self, at: tuple[int, int], values: int, size: int) -> None:
        self.values += values
        self.size += size
        if self.values > VALUES_MAX:
            raise self._refuse(at, f"more than {VALUES_MAX:,} values", "a smaller file")
        if self.size > self.size_max:
            found = f"more than {self.size_max:,} bytes, with what aliases name written out"
            raise self._refuse(at, found, "a smaller file")

    def _refuse(self, at: tuple[int, int], found: str, expected: str) -> RefusedError:
        return _refusal(self.text.splitlines(), self.source, at, found, expected)


def measure(data: Any, values_max: int, size_max: int) -> tuple[int, int]:
    """How many values ``data`` holds, and their bytes: what an alias names counts wherever it stands.

    Counting ends where one of the limits is passed.
    """
    values, size, waiting = 0, 0, [data]
    while waiting and values <= values_max and size <= size_max:
        value = waiting.pop()
        values += 1
        size += size_of(value)
        if isinstance(value, dict):
            size += sum(map(size_of, value))
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return values, size


def size_of(value: Any) -> int:
    """What ``value`` weighs without the values in it, in bytes; about what it takes as JSON."""
    return len(value.encode(errors="surrogatepass")) + _VALUE_SIZE if isinstance(value, str) else _VALUE_SIZE


def _plain(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) and text[-1] != "." else text
