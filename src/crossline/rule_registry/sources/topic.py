"""A control topic as publications: the last message of each key, loaded in the order in which they came.

A topic that is compacted has lost what came before the last message of a key, which the rule log has. What is not lost
is loaded one after the other: of two publishers of one version the first one is right, whichever process reads when.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Protocol

from crossline.basics.errors import SourceError
from crossline.basics.message import TopicMessage
from crossline.logs import get_logger
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.sources.folder import Files
from crossline.rule_registry.sources.keys import AUTHOR, FORMS, HOST, WHO, Key, ListKey, key_of_bytes
from crossline.rule_registry.sources.origin import Origin
from crossline.rule_registry.sources.principals import ALPHABET, principal_of

# Where more messages of one key wait, older ones are not loaded by themselves: each look reads all rules.
STEPS_MAX = 50
FIRST_WAIT_S = 60.0  # for what is needed to begin
NEXT_WAIT_S = 5.0  # where the rule log knows what judges

log = get_logger(__name__)


class ControlReader(Protocol):
    """Messages of a topic from its beginning on."""

    topic: str

    def read(self, wait_s: float = 0.0) -> tuple[list[TopicMessage], bool]:
        """Those that came since, and whether its end was met since it was opened.

        Raises UsageError where there is no such topic, or one that is no control topic. A broker that does not answer
        gives no messages.
        """
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing comes; None where it goes well."""
        ...

    def close(self) -> None:
        """Leave the brokers."""
        ...


class TopicPublications:
    """Implements Publications. ``name_of``: what a key is called among the files; None: it is none of these.

    ``in_steps``: of several messages of one key each is given by itself. ``strays``: messages that are about nothing
    are given too, to be refused.
    """

    def __init__(
        self,
        reader: ControlReader,
        name_of: Callable[[Key], str | None],
        bytes_max: int,
        *,
        in_steps: bool = True,
        strays: bool = True,
        wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._reader = reader
        self._name_of = name_of
        self._bytes_max = bytes_max
        self._in_steps = in_steps
        self._strays = strays
        self._wait_s = wait_s
        self._seen = -1  # the offset up to which a log has all that was loaded one by one
        self._whole = False
        self._waiting: deque[TopicMessage] = deque()
        self._files: dict[str, FileContent] = {}
        self._next: dict[str, FileContent] | None = None
        self._loaded: dict[str, tuple[str, str | None]] | None = None

    def begin(self, events: Sequence[RuleEvent], *, first: bool) -> None:
        """Read the topic to its end, if it answers.

        Raises UsageError as the reader, SourceError where nothing is known and it does not answer.
        """
        places = [event.place.rpartition("/") for event in events if event.place is not None]
        mine = [int(offset) for where, _, offset in places if where == f"{self._reader.topic}/0"]
        self._seen = max(mine, default=-1)
        wait_s = self._wait_s if first else NEXT_WAIT_S
        deadline_s = time.monotonic() + wait_s
        self._read(0.0)
        while not self._whole and time.monotonic() < deadline_s:
            self._read(0.1)
        if self._whole:
            return
        message = self._reader.trouble or f"it was not read to its end in {wait_s:.0f} s"
        text = f"the control topic {self._reader.topic} cannot be read: {message}; see that its brokers are up"
        if first:
            raise SourceError(text)
        log.warning("rules and lists go on by the rule log", error=text)

    def changed(self) -> Files | None:
        """As of the protocol; nothing before the end of the topic was met once: what is not read yet is not gone."""
        self._read(0.0)
        if not self._whole:
            return None
        if self._next is None:
            step = self._step()
            if _marks(step) == self._loaded:
                self._files = step
                return None
            self._next = step
        return dict(self._next)

    def take(self, files: Files) -> None:
        """As of the protocol. A message that is about nothing is reported once."""
        if self._next is not None and _marks(files) == _marks(self._next):
            self._files, self._next = self._next, None
        self._files = {name: content for name, content in self._files.items() if not self._is_stray(name)}
        self._loaded = _marks(self._files)

    @property
    def more(self) -> bool:
        """Whether messages wait."""
        return bool(self._waiting)

    def close(self) -> None:
        """Leave the brokers."""
        self._reader.close()

    def _read(self, wait_s: float) -> None:
        messages, whole = self._reader.read(wait_s)
        self._waiting.extend(messages)
        self._whole = self._whole or whole

    def _step(self) -> dict[str, FileContent]:
        """The files after the messages that wait, up to the first one that undoes what no look has met.

        That is one whose key came before among them; and one that replaces a rule or an approval, where the other half
        of the same version came before it: with the old one it may have been effective.
        """
        files, met, versions = dict(self._files), set[str](), set[tuple[str, ...]]()
        many = self._many()
        while self._waiting:
            message = self._waiting[0]
            name = self._named(message)
            if name is not None and self._in_steps and message.offset > self._seen and not many[name] > STEPS_MAX:
                version = tuple(name.split("/")[1:3])
                if name in met or (name in files and version in versions):
                    break
                met.add(name)
                versions.add(version)
            if name is not None:
                many[name] -= 1
            self._waiting.popleft()
            self._apply(files, name, message)
        return files

    def _many(self) -> Counter[str]:
        return Counter(name for each in self._waiting if (name := self._named(each)) is not None)

    def _named(self, message: TopicMessage) -> str | None:
        key = key_of_bytes(message.key)
        if key is None:
            return message.place if self._strays else None
        return self._name_of(key)

    def _is_stray(self, name: str) -> bool:
        return name.startswith(f"{self._reader.topic}/0/")

    def _apply(self, files: dict[str, FileContent], name: str | None, message: TopicMessage) -> None:
        if name is None:
            return
        if message.value is None:
            files.pop(name, None)
            return
        who, wrong = principal_of(message, WHO)
        author, no_author = principal_of(message, AUTHOR)
        origin = Origin(who, message.at_ms, message.header(HOST), message.place, author)
        if wrong is not None or no_author is not None:
            header = WHO if wrong is not None else AUTHOR
            files[name] = FileContent(b"", f"{wrong or no_author}, in the header {header}", ALPHABET, origin)
        elif name == message.place:
            found = (
                "no key" if message.key is None else f"the key {message.key[:100].decode(errors='backslashreplace')}"
            )
            files[name] = FileContent(b"", found, f"a message with a key of the form {FORMS}", origin)
        elif len(message.value) > self._bytes_max:
            found = f"{len(message.value):,} bytes"
            files[name] = FileContent(b"", found, f"at most {self._bytes_max:,} bytes", origin)
        else:
            files[name] = FileContent(message.value, origin=origin)


def rule_name(key: Key) -> str | None:
    """Rules, approvals, shared figures, holds and releases are called as their keys are; lists are none of these."""
    return None if isinstance(key, ListKey) else str(key)


def list_file(key: Key) -> str | None:
    """A list is called as its file is."""
    return key.file if isinstance(key, ListKey) else None


def _marks(files: Files) -> dict[str, tuple[str, str | None]]:
    """Digest and publisher by file: a change of either has the file checked again. The publisher may come later."""
    return {name: (content.digest, content.origin.who) for name, content in files.items()}
