"""A SQLite file that only its owner can read: local users, and personal data of the console."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from crossline.basics.errors import PermanentError, RetryableError, StateError
from crossline.io.private_files import check_private

_WAIT_S = 10.0


class PrivateDatabase:
    """Opens the file for each transaction; several processes and threads may.

    Args:
        path: The file; made by the first write, readable for its owner alone.
        version: Of its tables.
        tables: What makes them.
        made_by: The command that makes the file, for errors.
        upgrades: By an earlier version, what makes the next one of it.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        tables: Sequence[str],
        made_by: str,
        upgrades: Mapping[int, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._version = version
        self._tables = tables
        self._made_by = made_by
        self._upgrades = upgrades

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection to read. Raises PermanentError where there is no file, RetryableError where it is locked."""
        with self._open() as db:
            if self._version_of(db) in self._upgrades:
                with self.writing():  # which brings it up to date
                    pass
            if self._version_of(db):
                yield db
                return
        raise PermanentError(f"found no tables in {self.path}; expected those that {self._made_by} makes")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction, whole or not at all, on the disk at its end."""
        self._make()
        with self._open() as db:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("BEGIN IMMEDIATE")
            try:
                self._bring_up(db)
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            check_private(self.path)
            address = f"{self.path.absolute().as_uri()}?mode=rw"
            with closing(sqlite3.connect(address, timeout=_WAIT_S, isolation_level=None, uri=True)) as db:
                yield db
        except FileNotFoundError:
            raise PermanentError(f"found no file {self.path}; expected one that {self._made_by} makes") from None
        except sqlite3.OperationalError as error:
            raise RetryableError(f"{self.path} cannot be read or written now: {error}") from error
        except sqlite3.DatabaseError as error:
            raise StateError(f"{self.path}: found what is no database ({error}); expected {self._made_by}'s") from None

    def _bring_up(self, db: sqlite3.Connection) -> None:
        """Make the tables, or what they lack, in a transaction."""
        while (version := self._version_of(db)) != self._version:
            for each in self._upgrades[version] if version else self._tables:
                db.execute(each)
            db.execute(f"PRAGMA user_version = {version + 1 if version else self._version}")

    def _version_of(self, db: sqlite3.Connection) -> int:
        """Of the tables; 0: there are none. Raises StateError where they are of a version that is not known."""
        version = int(db.execute("PRAGMA user_version").fetchone()[0])
        if version not in {0, self._version, *self._upgrades}:
            raise StateError(f"{self.path}: found version {version}; expected {self._version}")
        return version

    def _make(self) -> None:
        """The file has its rights before it has a byte."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
