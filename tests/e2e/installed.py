"""The package as a user installs it: a wheel in an environment of its own, outside of the tree.

Nothing is fetched. What the wheel says it requires is linked from this environment, and nothing else: a library that is
imported and not required is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_paths()["purelib"])
# What decides what is imported from where, besides the environment itself.
_OURS = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NUMBA_CACHE_DIR", "COLUMNS")


class Installed:
    """An environment in ``folder`` that has ``wheel``, and what it requires with ``extras``.

    ``given``: variables of its programs.
    """

    def __init__(
        self, folder: Path, wheel: Path, extras: Iterable[str] = (), given: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._given = dict(given or {})
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        (self._site,) = folder.glob("lib/python3*/site-packages")
        pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-deps", "--no-index"]
        subprocess.run([*pip, "-q", "--disable-pip-version-check", wheel], check=True, env=self.environment())
        for name in required(metadata_of(wheel), extras):
            self.link(distribution(name))

    def environment(self) -> dict[str, str]:
        """Of programs in it: nothing of this tree is found through a variable."""
        kept = {name: value for name, value in os.environ.items() if name not in _OURS}
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, **self._given}

    def link(self, package: Distribution) -> None:
        """Have ``package`` there too, by links to its files."""
        tops = {file.parts[0] for file in package.files or () if file.parts[0] not in {"..", "__pycache__"}}
        for top in tops:
            if not (self._site / top).exists():
                (self._site / top).symlink_to(SITE / top)

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """What a command of the environment prints; fails where it does not end with ``code``."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stderr


def built_wheel(folder: Path) -> Path:
    """The wheel of this tree; its build needs nothing that is not installed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def metadata_of(wheel: Path) -> Message:
    """What the wheel says of itself."""
    with ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(file.read(name).decode())


def required(metadata: Message, extras: Iterable[str]) -> set[str]:
    """The packages that the wheel needs with ``extras``, and all that these need."""
    found: set[str] = set()
    waiting = [(str(each), extra) for each in metadata.get_all("Requires-Dist") or () for extra in ("", *extras)]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        more = ("", *requirement.extras)
        if name == "crossline":
            waiting += [(str(each), extra) for each in metadata.get_all("Requires-Dist") or () for extra in more]
        elif name not in found or requirement.extras:
            found.add(name)
            waiting += [(each, extra) for each in distribution(name).requires or () for extra in more]
    return found
