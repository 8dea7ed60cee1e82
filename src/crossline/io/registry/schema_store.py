"""Schemas by id, for tasks: requested once, cached for ever; a task waits while the registry is unreachable.

A number never means another schema, so what was found is kept in a folder that all tasks share, and a restart or a
second look needs no registry. That a number is *not* known is true of a moment: it is noted for the batch in which it
was found out, so that this batch is the same when it is run again. The next batch requests it again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_never
from tenacity.wait import wait_random_exponential

from crossline.basics.errors import PermanentError, SourceError
from crossline.ingest.avro.schema import Node, SchemaError, read_schema
from crossline.io.objects.file_stores import FileStore, StoreUnavailableError, file_store, retry_until_available
from crossline.io.registry.client import RegistryClient, SchemaAnswer, UnknownSchemaError
from crossline.logs import get_logger
from crossline.settings.registry import RegistrySettings

log = get_logger(__name__)

# A registry of several may see a new schema a moment after the one that stored it.
RETRY_S = (0.2, 1.0)
RETRY_IDS_MAX = 16  # numbers at once: more of them are no schemas, but bytes that look like their numbers
DOUBTED_MAX = 100  # so many in the life of a process: who sends ever other numbers slows no batch for ever
PAUSE_S, PAUSE_S_MAX = 0.2, 10.0
HURRIED_S_MAX = 3.0
UNKNOWN_KEPT_MAX = 10_000
_NOTES, _NOTES_KEPT = "not-known", 4
T = TypeVar("T")

# Of this process: what a number means, and those of which it is known that they mean nothing yet.
_Place = tuple[tuple[str, ...], str, int]  # addresses, folder, number
_known: dict[_Place, Node | str] = {}
_unknown: set[_Place] = set()


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """``folder``: where what was found is kept, a path or the URI of a store.

    ``patient``: wait for a registry or a store that is away, else say so at once.
    """

    address: RegistryClient
    folder: str
    patient: bool = True

    @classmethod
    def of(cls, settings: RegistrySettings, folder: str, environment: Mapping[str, str]) -> Self:
        """The store of a source.

        Raises PermanentError where the password, or the certificates, are not where the settings say.
        """
        if settings.ca_file is not None and not Path(settings.ca_file).is_file():
            raise PermanentError(
                f"ca_file {settings.ca_file} of the registry: found no such file, expected certificates"
            )
        password = settings.password(environment, lambda path: Path(path).read_text(encoding="utf-8"))
        return cls(RegistryClient(tuple(settings.urls), settings.username, password, settings.ca_file), folder)

    def hurried(self) -> Self:
        """The same store, which does not wait."""
        address = replace(self.address, answer_s_max=HURRIED_S_MAX)
        return replace(self, address=address, patient=False)

    def schemas(self, numbers: Iterable[int], batch_id: int = 0) -> dict[int, Node | str]:
        """What each number means: its schema, or why there is none.

        Waits for the registry. Raises SourceError where it is away and the store is not ``patient``, PermanentError
        where it does not let us ask.
        """
        found: dict[int, Node | str] = {}
        unknown: list[int] = []
        noted: set[int] | None = None
        for number in sorted(set(numbers)):
            known = self.kept(number)
            if known is None and number > 0:
                noted = self._noted(batch_id) if noted is None else noted
                if number not in noted:
                    unknown.append(number)
            found[number] = known or _no_such(number)
        if unknown:
            found |= self._fetched(unknown, batch_id)
        return found

    def looked_up(self, number: int) -> Node | str:
        """What the registry has for an id; nothing is cached or noted.

        Raises as ``schemas`` does.
        """
        answer = self._held(lambda: self._answer(number), number) if number > 0 else None
        return _no_such(number) if answer is None else _read(number, answer)

    def kept(self, number: int) -> Node | str | None:
        """What is known of a number without asking for it; None where nothing is."""
        place = self._place(number)
        if place not in _known:
            try:
                body = json.loads(self._stored(lambda files: files.get(_file(number))))
                answer = SchemaAnswer(tuple(body["texts"]), body["refused"])
            except (FileNotFoundError, ValueError, KeyError, TypeError):  # a damaged file is fetched again
                return None
            _known[place] = _read(number, answer)
        return _known[place]

    def _place(self, number: int) -> _Place:
        return self.address.urls, self.folder, number

    def _stored(self, call: Callable[[FileStore], T]) -> T:
        """What ``call`` gives of the files that are kept; a store that is away is as a registry that is."""
        files = file_store(self.folder)
        if self.patient:
            return retry_until_available(lambda: call(files))
        try:
            return call(files)
        except StoreUnavailableError as error:
            raise SourceError(str(error)) from error

    def _fetched(self, numbers: list[int], batch_id: int) -> dict[int, Node | str]:
        """Fetch numbers; those that are new and not known at first are fetched again, all together."""
        left = [number for number in numbers if not self._fetch(number)]
        fresh = [number for number in left if self._place(number) not in _unknown]
        patience = 0 < len(fresh) <= RETRY_IDS_MAX and len(_unknown) < DOUBTED_MAX
        for pause_s in RETRY_S if patience else ():
            time.sleep(pause_s)
            left = [number for number in left if not self._fetch(number)]
        if left:
            self._note(batch_id, left)
            if len(_unknown) > UNKNOWN_KEPT_MAX:
                _unknown.clear()
            _unknown.update(self._place(number) for number in left)
            log.warning("the registry knows no such schemas; their records are dead letters", schemas=left[:10])
        return {number: self.kept(number) or _no_such(number) for number in numbers}

    def _fetch(self, number: int) -> bool:
        """Whether the registry knows ``number``, which is kept then."""
        answer = self._held(lambda: self._answer(number), number)
        if answer is None:
            return False
        body = json.dumps({"id": number, "texts": answer.texts, "refused": answer.refused}).encode()
        self._stored(lambda files: files.put(_file(number), body))
        return True

    def _answer(self, number: int) -> SchemaAnswer | None:
        try:
            return self.address.schema(number)
        except UnknownSchemaError:
            return None
        except (KeyError, TypeError, ValueError) as error:
            raise SourceError(f"the registry's answer about schema {number} cannot be read: {error!r}") from error

    def _held(self, fetch: Callable[[], SchemaAnswer | None], number: int) -> SchemaAnswer | None:
        """``fetch`` until there is an answer; the batch waits as long as that takes, and its task can be ended."""
        return Retrying(
            retry=retry_if_exception_type(SourceError),
            wait=wait_random_exponential(PAUSE_S, PAUSE_S_MAX),
            stop=stop_never if self.patient else stop_after_attempt(1),
            before_sleep=_log_retry(number),
            reraise=True,
        )(fetch)

    def _noted(self, batch_id: int) -> set[int]:
        """All that tasks noted for the batch, each in a file of its own."""
        folder = f"{_NOTES}/{batch_id}"

        def noted(files: FileStore) -> set[int]:
            return {int(line) for name in files.names(folder) for line in files.get(f"{folder}/{name}").split()}

        return self._stored(noted)

    def _note(self, batch_id: int, numbers: list[int]) -> None:
        def note(files: FileStore) -> None:
            for old in files.folders(_NOTES):
                if int(old) < batch_id - _NOTES_KEPT:
                    files.clear(f"{_NOTES}/{old}")
            files.put(f"{_NOTES}/{batch_id}/{uuid.uuid4().hex}", "\n".join(map(str, numbers)).encode())

        self._stored(note)


def _file(number: int) -> str:
    return f"{number}.json"


def _read(number: int, answer: SchemaAnswer) -> Node | str:
    if answer.refused:
        return answer.refused
    try:
        return read_schema(answer.texts)
    except SchemaError as error:
        return f"schema {number} cannot be read: {error}"


def _no_such(number: int) -> str:
    return f"found schema {number}, which the registry does not know"


def _log_retry(number: int) -> Any:
    def log_retry(state: RetryCallState) -> None:
        log.warning(
            "the registry is away; holding the batch",
            schema=number,
            attempt=state.attempt_number,
            retry_in_ms=round(state.upcoming_sleep * 1000),
            error=str(state.outcome.exception()) if state.outcome else None,
        )

    return log_retry
