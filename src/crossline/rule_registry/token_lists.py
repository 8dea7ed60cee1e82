"""Named lists of sensitive values: tokens from the moment that they are read, in logs and checkpoints too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import orjson

from crossline.basics.texts.problems import RefusedError
from crossline.basics.times import FOREVER_MS, format_instant
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.list_file import list_name, read_list
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.publications import Publications

# By name of a list, what makes tokens of its values.
ListTokens = Mapping[str, Callable[[Sequence[str]], list[str]]]


def with_tokens(files: Files, tokens: ListTokens) -> Files:
    """``files`` with those lists as lists of tokens. What cannot be read stays as it is, to be refused."""
    return {source: _tokenised(source, content, tokens) for source, content in files.items()}


def _tokenised(source: str, content: FileContent, tokens: ListTokens) -> FileContent:
    make = tokens.get(list_name(source))
    if make is None:
        return content
    try:
        entries = read_list(source, content)
    except RefusedError:
        return content
    made = make([str(value) for value, _ in entries])
    if source.endswith(".txt"):
        return replace(content, data="".join(f"{token}\n" for token in made).encode())
    ends = [{} if until_ms == FOREVER_MS else {"until": format_instant(until_ms)} for _, until_ms in entries]
    return replace(content, data=orjson.dumps([{"value": token, **end} for token, end in zip(made, ends, strict=True)]))


class TokenLists:
    """Publications of lists, those of ``tokens`` as lists of tokens."""

    def __init__(self, given: Publications, tokens: ListTokens) -> None:
        self.given = given
        self._tokens = tokens
        self._made: Files = {}
        self._raw: Files = {}

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """As of the publications."""
        self.given.begin(events, first=first)

    def changed(self) -> Files | None:
        """All files, where any differs from those last given to ``take``."""
        files = self.given.changed()
        if files is None:
            return None
        self._raw, self._made = files, with_tokens(files, self._tokens)
        return self._made

    def take(self, files: Files) -> None:
        """Note that ``files``, as given by ``changed``, were dealt with."""
        known = {name: self._raw[name] for name, each in files.items() if self._made.get(name) == each}
        self.given.take({**files, **known})

    @property
    def more(self) -> bool:
        """As of the publications."""
        return self.given.more

    def close(self) -> None:
        """As of the publications."""
        self.given.close()
