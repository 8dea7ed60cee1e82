"""The jars that Spark and the local broker need: pinned by hash, fetched once, kept in the cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.cache_folder import cache_dir
from crossline.runtime.machine.ivy import Coordinates, retrieve

# Called with the name of a jar that has come, how many have come, and how many there are to fetch.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Pin:
    """One jar: what it must be, and where it stands in a Maven repository."""

    sha256: str
    group: str
    path: str

    @property
    def file_name(self) -> str:
        """The name of the file, here as there."""
        return self.path.rpartition("/")[2]

    @property
    def coordinates(self) -> Coordinates:
        """Organisation, module, revision; of what is no plain jar its classifier and the end of its name besides."""
        organisation, module, revision, name = self.path.rsplit("/", 3)
        plain = (organisation.replace("/", "."), module, revision)
        rest = name.removeprefix(f"{module}-{revision}")
        if rest == ".jar":
            return plain
        classifier, _, end = rest.removeprefix("-").partition(".")
        return (*plain, classifier, end)


@cache
def pins() -> tuple[Pin, ...]:
    """All pinned jars of all groups."""
    lines = (Path(__file__).parent / "jars.lock").read_text().splitlines()
    split = (line.split() for line in lines if line and not line.startswith("#"))
    return tuple(Pin(sha256=sha256, group=group, path=path) for sha256, group, path in split)


def groups() -> list[str]:
    """The names of the groups."""
    return sorted({pin.group for pin in pins()})


@dataclass(frozen=True, slots=True)
class JarStore:
    """A folder of jars, one folder a group. ``fetch`` puts jars into a folder; what comes is checked."""

    folder: Path
    pins: Sequence[Pin]
    fetch: Callable[[Sequence[Pin], Path, Progress], None]

    def ensure(self, group: str, progress: Progress) -> list[Path]:
        """The jars of ``group``, fetched where missing. Safe when several processes call it at once.

        Raises PermanentError where there is no such group, where a jar is not the pinned one, or could not be had.
        """
        wanted = self.of_group(group)
        if self.missing(group):
            with self._locked(group):
                if missing := self.missing(group):
                    self._fetch(group, missing, progress)
        for pin in wanted:
            _check(self.place(pin), pin)
        return [self.place(pin) for pin in wanted]

    def of_group(self, group: str) -> list[Pin]:
        """The pins of ``group``."""
        found = [pin for pin in self.pins if pin.group == group]
        if not found:
            known = ", ".join(sorted({pin.group for pin in self.pins}))
            raise PermanentError(f"no group of jars {group!r}; there are {known}")
        return found

    def missing(self, group: str) -> list[Pin]:
        """Those of ``group`` that are not in the folder."""
        return [pin for pin in self.of_group(group) if not self.place(pin).is_file()]

    def place(self, pin: Pin) -> Path:
        """Where the jar stands, or would."""
        return self.folder / pin.group / pin.file_name

    def _fetch(self, group: str, missing: Sequence[Pin], progress: Progress) -> None:
        with tempfile.TemporaryDirectory(prefix=f"{group}-", dir=self.folder) as arriving:
            try:
                self.fetch(missing, Path(arriving), progress)
            except PermanentError as error:
                raise PermanentError(_by_hand(missing, self.folder / group, str(error))) from error
            arrived = [(Path(arriving) / pin.file_name, pin) for pin in missing]
            if lacking := [pin for path, pin in arrived if not path.is_file()]:
                raise PermanentError(_by_hand(lacking, self.folder / group, "they were not to be had"))
            for path, pin in arrived:
                _check(path, pin)
            for path, pin in arrived:
                path.replace(self.place(pin))

    @contextmanager
    def _locked(self, group: str) -> Iterator[None]:
        (self.folder / group).mkdir(parents=True, exist_ok=True)
        with (self.folder / f"{group}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the system releases it when the process ends, however it ends
            yield


def default_store() -> JarStore:
    """The store in the cache folder, fed by Ivy."""
    folder = cache_dir() / "jars"
    return JarStore(folder, pins(), _by_ivy)


def _by_ivy(missing: Sequence[Pin], into: Path, progress: Progress) -> None:
    retrieve([pin.coordinates for pin in missing], into, progress)


def ensure_jars(group: str, progress: Progress | None = None) -> list[Path]:
    """The jars of ``group`` in the cache folder, fetched where missing; by default it reports it on stderr.

    Raises PermanentError: no such group, a jar that is not the pinned one, no way to the registry, no Java.
    """
    return default_store().ensure(group, progress or _to_stderr)


def _to_stderr(name: str, done: int, total: int) -> None:
    sys.stderr.write(f"fetched {name} ({done} of {total})\n")


def _check(path: Path, pin: Pin) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != pin.sha256:
        raise PermanentError(
            f"{path} is not the jar that crossline was tested with: refused\n"
            f"  expected SHA-256 {pin.sha256}\n  found            {found}\n"
            "Delete it, if it is there, and try again; if it comes back the same, the registry serves another file."
        )


def _by_hand(lacking: Sequence[Pin], folder: Path, reason: str) -> str:
    names = "".join(f"\n  {pin.path}" for pin in lacking)
    return (
        f"cannot fetch jars: {reason}\nMissing (paths in any Maven repository):{names}\n"
        f"Put the files into {folder}{os.sep} by hand, or mend the way to the registry and try again; "
        "CROSSLINE_IVY_SETTINGS may name an ivysettings.xml for a mirror of your own."
    )
