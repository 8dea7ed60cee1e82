"""Which Java is taken: made-up ``java`` commands that say what real ones say, and the machine's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.machine import java
from crossline.runtime.machine.java import Java, Probe, find_java, probe_java, without_incubators


def make_java(home: Path, version: str) -> Path:
    """A home whose ``bin/java`` answers as ``version`` does; it counts how often it was asked."""
    script = f"""#!/bin/sh
case "$*" in *-version*)
  echo asked >> {home}/asked
  printf 'Property settings:\n    java.home = {home}\n    java.version = {version}\n' >&2
  exit 0 ;;
esac
printf '%s\n' "$@"
"""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the usual folders, no wheel, and nothing put by."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(java, "cache_dir", lambda _: tmp_path / "cache")
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


def test_sparks_scripts_get_a_java_that_drops_their_argument(tmp_path: Path) -> None:
    home = make_java(tmp_path / "a real one", "21.0.8")
    environment = {"CROSSLINE_CACHE": str(tmp_path / "cache")}
    wrapped = without_incubators(Java(home, "21.0.8", "system"), environment)
    assert wrapped.is_relative_to(tmp_path / "cache")
    assert (wrapped / "lib").resolve() == home / "lib"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", ""]
    found = subprocess.run([wrapped / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert found.splitlines() == ["-Xmx1g", "-Da=b c", ""]
    assert without_incubators(Java(home, "21.0.8", "system"), environment) == wrapped


def test_a_java_is_asked_once_until_it_is_another(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "17.0.1")
    environment = {"JAVA_HOME": str(home), "PATH": "", "CROSSLINE_CACHE": str(tmp_path / "cache")}
    assert [find_java(environment).version for _ in range(3)] == ["17.0.1"] * 3
    assert (home / "asked").read_text().count("asked") == 1
    binary = home / "bin" / "java"
    binary.write_text(binary.read_text().replace("17.0.1", "21.0.20"))
    assert find_java(environment).version == "21.0.20"


def test_the_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, own = make_java(tmp_path / "wheel", "21.0.8"), make_java(tmp_path / "own", "17.0.1")
    monkeypatch.setattr(java, "_from_wheel", lambda: Probe(home, "21.0.8"))
    assert find_java({"PATH": ""}).kind == "wheel"
    assert find_java({"PATH": "", "JAVA_HOME": str(own)}).kind == "system"


def test_what_is_no_java_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "java").write_text("#!/bin/sh\necho hello\n")
    assert probe_java(tmp_path / "java") is None
    (tmp_path / "java").chmod(0o755)
    assert probe_java(tmp_path / "java") is None
