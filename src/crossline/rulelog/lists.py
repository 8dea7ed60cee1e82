"""Named lists, one a file: ``cards.txt`` with an entry a line, or ``cards.yaml`` with a list of values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.core.errors import UsageError
from crossline.core.rules.report import Problem, RefusedError, Report, shown
from crossline.core.yamltext import load_yaml
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.folder import FileContent, Files, Folder

SUFFIXES = (".txt", ".yaml", ".yml", ".json")

Lists = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class _Loaded:
    source: str
    digest: str
    entries: list[Any]


class ListsDirectory:
    """The named lists of a folder. A list that cannot be read, or is gone, stays as it last was."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._folder = Folder(self.path, SUFFIXES)
        self._loaded: dict[str, _Loaded] = {}
        self._refused: set[tuple[str, str]] = set()
        self._gone: set[str] = set()

    @property
    def lists(self) -> Lists:
        """The lists by name, as last taken up."""
        return {name: loaded.entries for name, loaded in self._loaded.items()}

    def load(self) -> Lists:
        """The lists to begin with. Raises UsageError where the folder is missing, or with all that is wrong in it.

        There is no last good list at a start, and a rule that finds its list empty would be silent.
        """
        if not self.path.is_dir():
            raise UsageError(f"found no folder {self.path}; expected the folder of the lists: make it, or name another")
        lists, events = self.take_up(self._folder.changed() or {}, 0)
        refusals = [str(event.text) for event in events if event.event == "refused"]
        if refusals:
            raise UsageError("\n\n".join(refusals))
        return lists

    def poll(self) -> Files | None:
        """What there is to take up, or None. Cheap."""
        return self._folder.changed()

    def take_up(self, files: Files, now_ms: int) -> tuple[Lists, list[RuleEvent]]:
        """The lists from now on, and what happened: ``list_changed``, ``refused`` (once per content), ``absent``."""
        events: list[RuleEvent] = []
        seen: dict[str, str] = {}
        for source, content in files.items():
            name = source.rpartition(".")[0]
            try:
                if name in seen:
                    raise _refused(source, f"list {shown(name)}", f"one file a list; it stands in {seen[name]}")
                seen[name] = source
                events += self._load(name, source, content, now_ms)
            except RefusedError as error:
                if (source, content.digest) not in self._refused:
                    self._refused.add((source, content.digest))
                    events.append(RuleEvent("refused", now_ms, source=source, digest=content.digest, text=str(error)))
        gone = {loaded.source for loaded in self._loaded.values()} - set(files)
        for source in sorted(gone - self._gone):
            text = f"{source} is gone; its list stays as it was until the pipeline starts again"
            events.append(RuleEvent("absent", now_ms, source=source, text=text))
        self._gone = gone
        self._folder.take(files)
        return self.lists, events

    def _load(self, name: str, source: str, content: FileContent, now_ms: int) -> list[RuleEvent]:
        known = self._loaded.get(name)
        if known is not None and (known.source, known.digest) == (source, content.digest):
            return []
        entries = read_list(source, content)
        self._loaded[name] = _Loaded(source, content.digest, entries)
        text = f"list {name}: {len(entries)} entries"
        return [RuleEvent("list_changed", now_ms, source=source, digest=content.digest, text=text)]


def read_list(source: str, content: FileContent) -> list[Any]:
    """The entries of a list file. In text, blank lines and lines that start with # count for nothing.

    Raises RefusedError with all that is wrong.
    """
    text = text_of(source, content)
    if source.endswith(".txt"):
        lines = (line.strip() for line in text.splitlines())
        return [line for line in lines if line and not line.startswith("#")]
    document = load_yaml(text, source)
    report = Report(document)
    if not isinstance(document.data, list):
        report.add((), shown(document.data), "a list of values")
    else:
        for number, entry in enumerate(document.data):
            if not isinstance(entry, str | int | float):
                report.add((number,), shown(entry), "text, a number, true or false")
    report.raise_if_any()
    return list(document.data)


def text_of(source: str, content: FileContent) -> str:
    """The text of a file; raises RefusedError where it could not be read, or is not UTF-8."""
    if content.error is not None:
        raise _refused(source, content.error, "a file that can be read")
    try:
        return content.data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.data.count(b"\n", 0, error.start) + 1
        raise _refused(source, f"byte 0x{content.data[error.start]:02x}", "text in UTF-8", line) from None


def _refused(source: str, found: str, expected: str, line: int = 1) -> RefusedError:
    return RefusedError([Problem(source, line, "", found, expected)])
