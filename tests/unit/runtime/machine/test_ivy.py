"""The input of Ivy, and the use of its output; a fake ``java`` plays Ivy."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.runtime.machine import ivy
from crossline.runtime.machine.java import Java

WANTED = [("org.example", "one", "1.0"), ("org.example", "two", "2.0")]


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(ivy, "find_java", lambda: Java(folder, "17", "system"))


def test_each_jar_that_comes_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\\n".join(
        f"\\t[SUCCESSFUL ] org.example#{name}!{name.partition(';')[0]}.jar (12ms)" for name in ("two;2.0", "one;1.0")
    )
    play(monkeypatch, tmp_path, f"printf '{text}\\n'")
    seen: list[tuple[str, int, int]] = []
    ivy.retrieve(WANTED, tmp_path, lambda *step: seen.append(step))
    assert seen == [("two-2.0", 1, 2), ("one-1.0", 2, 2)]


def test_a_failure_gives_the_cause_without_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
:: resolving dependencies :: crossline#jars;working@here
	module not found: org.example#one;1.0
	==== public: tried
		:: org.example#one;1.0: not found
	Server access error at url somewhere (java.net.UnknownHostException: nowhere)
"""
    play(monkeypatch, tmp_path, f"cat <<'END'\n{text}\nEND\nexit 1")
    with pytest.raises(PermanentError) as failed:
        ivy.retrieve(WANTED, tmp_path, lambda *_: None)
    assert str(failed.value) == "Ivy failed: java.net.UnknownHostException: nowhere"


def test_jars_are_asked_for_without_what_they_depend_on() -> None:
    module = ET.fromstring(ivy.module_file([("org.example", 'a"b', "1.0")]))  # noqa: S314 - our own text
    (dependency,) = module.iter("dependency")
    assert dependency.attrib == {
        "org": "org.example",
        "name": 'a"b',
        "rev": "1.0",
        "transitive": "false",
        "conf": "default->default",
    }


def test_what_is_no_plain_jar_is_asked_for_by_its_classifier() -> None:
    module = ET.fromstring(ivy.module_file([("org.example", "app", "1.0", "all", "tar.gz")]))  # noqa: S314 - as above
    (artifact,) = module.iter("artifact")
    assert artifact.attrib == {
        "name": "app",
        "type": "tar.gz",
        "ext": "tar.gz",
        "{http://ant.apache.org/ivy/extra}classifier": "all",
    }


def test_a_jar_and_another_file_of_its_module_are_asked_for_together() -> None:
    wanted = [("org.example", "core", "1.0"), ("org.example", "core", "1.0", "tests", "jar"), ("org.example", "a", "2")]
    module = ET.fromstring(ivy.module_file(wanted))  # noqa: S314 - as above
    core, other = module.iter("dependency")
    assert [each.get("{http://ant.apache.org/ivy/extra}classifier") for each in core] == [None, "tests"]
    assert next(each.attrib for each in core) == {"name": "core", "type": "jar", "ext": "jar"}
    assert (other.get("name"), len(other)) == ("a", 0)


@pytest.mark.parametrize(
    ("environment", "arguments"),
    [
        ({}, []),
        (
            {"https_proxy": "http://user@proxy.example:3128"},
            ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"],
        ),
        ({"HTTP_PROXY": "proxy.example"}, ["-Dhttp.proxyHost=proxy.example"]),
    ],
)
def test_java_is_reported_of_the_proxy(environment: dict[str, str], arguments: list[str]) -> None:
    assert ivy.proxy_arguments(environment) == arguments
