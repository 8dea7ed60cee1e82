"""Which Java is taken: made-up ``java`` commands that say what real ones say, and the machine's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from crossline.core.basics.errors import PermanentError
from crossline.engine.runtime import java
from crossline.engine.runtime.java import Probe, ask, find_java


def make_java(home: Path, version: str, *, vector: bool = True) -> Path:
    """A home whose ``bin/java`` answers as ``version`` does; without ``vector`` it refuses the module, as a cut one."""
    refuse = (
        '[ "$1" = "--add-modules=jdk.incubator.vector" ] && { echo "Error occurred during boot layer" >&2; exit 1; }'
    )
    script = f"""#!/bin/sh
{":" if vector else refuse}
case "$*" in *-version*)
  printf 'Property settings:\\n    java.home = {home}\\n    java.version = {version}\\n' >&2
  exit 0 ;;
esac
printf '%s\\n' "$@"
"""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the usual folders, no wheel."""
    monkeypatch.setattr(java, "_USUAL_FOLDERS", (f"{tmp_path}/usual/*",))
    monkeypatch.setattr(java, "_from_wheel", lambda: None)


def test_java_home_comes_before_path_and_path_before_the_usual_folders(tmp_path: Path) -> None:
    named, on_path, usual = (make_java(tmp_path / each, "17.0.1") for each in ("named", "on_path", "usual/jdk-17"))
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment).home == named
    del environment["JAVA_HOME"]
    assert find_java(environment).home == on_path
    assert find_java({"PATH": ""}).home == usual


@pytest.mark.parametrize(
    ("version", "fits"), [("17.0.15", True), ("21.0.8", True), ("1.8.0_402", False), ("25", False)]
)
def test_seventeen_and_twenty_one_fit(tmp_path: Path, version: str, *, fits: bool) -> None:
    environment = {"JAVA_HOME": str(make_java(tmp_path / "given", version)), "PATH": ""}
    if fits:
        assert find_java(environment).version == version
    else:
        with pytest.raises(PermanentError, match=f"no Java 17 or 21: found only {version} in .*set JAVA_HOME"):
            find_java(environment)


def test_one_that_does_not_fit_does_not_hide_one_that_does(tmp_path: Path) -> None:
    newest, fitting = make_java(tmp_path / "newest", "25.0.1"), make_java(tmp_path / "usual" / "b", "21.0.2")
    assert find_java({"JAVA_HOME": str(newest), "PATH": ""}).home == fitting


def test_without_any_the_error_says_what_to_do() -> None:
    with pytest.raises(PermanentError, match="found none; `make setup` installs one"):
        find_java({"PATH": ""})


def test_a_cut_java_is_wrapped_so_that_sparks_argument_is_dropped(tmp_path: Path) -> None:
    cut = make_java(tmp_path / "a cut one", "21.0.8", vector=False)
    environment = {"JAVA_HOME": str(cut), "PATH": "", "CROSSLINE_CACHE": str(tmp_path / "cache")}
    found = find_java(environment)
    assert found.home.is_relative_to(tmp_path / "cache")
    assert (found.home / "lib").resolve() == cut / "lib"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", ""]
    said = subprocess.run([found.binary, *given], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["-Xmx1g", "-Da=b c", ""]
    assert find_java(environment) == found


def test_the_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, own = make_java(tmp_path / "wheel", "21.0.8"), make_java(tmp_path / "own", "17.0.1")
    monkeypatch.setattr(java, "_from_wheel", lambda: Probe(home, "21.0.8", vector=True))
    assert find_java({"PATH": ""}).kind == "wheel"
    assert find_java({"PATH": "", "JAVA_HOME": str(own)}).kind == "system"


def test_what_is_no_java_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho hello\n")
    assert ask(tmp_path / "java") is None
    (tmp_path / "java").chmod(0o755)
    assert ask(tmp_path / "java") is None
