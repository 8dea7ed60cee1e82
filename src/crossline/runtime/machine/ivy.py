"""Fetches jars with the Ivy that PySpark ships, so that neither Maven nor the name of a registry is needed here."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from crossline.basics.errors import PermanentError
from crossline.runtime.machine.java import Java, find_java
from crossline.runtime.machine.temporary_folders import own_folder_for
from crossline.runtime.machine.truststore import certificates, write_trust_store

SETTINGS_VARIABLE = "CROSSLINE_IVY_SETTINGS"
_CONNECT_MS_MAX, _READ_MS_MAX = 20_000, 60_000
_LINES_KEPT = 200
_EXTRA = "http://ant.apache.org/ivy/extra"  # an XML namespace of Ivy, never fetched
_DEBIAN_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
# Ivy puts the cause of a failed request in brackets, and lists what it did not find; the rest are tables.
_CAUSE = re.compile(r"\(((?:\w+\.)+\w*(?:Exception|Error)\b.*)\)$")
_NOT_FOUND = re.compile(r"^(?:::\s+)?(\S+#\S+): not found$")
# Ivy's public repository, without what costs requests for each jar: its pom, its metadata, its checksum (we have pins).
_IVY_SETTINGS = """<ivysettings>
<settings defaultResolver="public"/>
<property name="ivy.checksums" value=""/>
<resolvers><ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false"/></resolvers>
</ivysettings>
"""
_ARRIVED = re.compile(r"\[SUCCESSFUL \] [^#]+#([^;]+);(\S+?)!")


# Organisation, module, revision; of what is no plain jar its classifier and the end of its name besides.
Coordinates = tuple[str, ...]


def retrieve(wanted: Sequence[Coordinates], into: Path, progress: Callable[[str, int, int], None]) -> None:
    """Put jars into ``into`` as ``module-revision.jar``, and none that they depend on; others by their whole names.

    Calls ``progress(name, done, total)`` as each comes. Raises PermanentError where one cannot be had, or without Java.
    """
    java = find_java()
    with own_folder_for("ivy") as work:
        (work / "ivy.xml").write_text(module_file(wanted))
        (work / "settings.xml").write_text(_IVY_SETTINGS)
        lines: deque[str] = deque(maxlen=_LINES_KEPT)
        with subprocess.Popen(
            _command(java, work, into, os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=work,
        ) as process:
            done = 0
            for line in process.stdout or ():
                lines.append(line.strip())
                if arrived := _ARRIVED.search(line):
                    done += 1
                    progress(f"{arrived[1]}-{arrived[2]}", done, len(wanted))
        if process.returncode != 0:
            raise PermanentError(f"Ivy failed: {_why(lines)}")


def module_file(wanted: Sequence[Coordinates]) -> str:
    """The ivy.xml that asks for exactly these jars."""
    artifacts: dict[Coordinates, list[tuple[str, ...]]] = {}  # a module that is named twice would count once
    for organisation, module, revision, *rest in wanted:
        artifacts.setdefault((organisation, module, revision), []).append(tuple(rest))
    dependencies = "\n".join(
        f"<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(revision)} "
        f'transitive="false" conf="default->default"{_artifacts(module, kinds)}'
        for (organisation, module, revision), kinds in artifacts.items()
    )
    return (
        f'<ivy-module version="2.0" xmlns:m="{_EXTRA}"><info organisation="crossline" module="jars"/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{dependencies}\n</dependencies></ivy-module>\n"
    )


def _artifacts(module: str, kinds: Sequence[tuple[str, ...]]) -> str:
    """The end of a dependency: which files of it are wanted, unless that is its plain jar alone."""
    if kinds == [()]:
        return "/>"
    return f">{''.join(_artifact(module, kind) for kind in kinds)}</dependency>"


def _artifact(module: str, kind: tuple[str, ...]) -> str:
    if not kind:
        return f'<artifact name={quoteattr(module)} type="jar" ext="jar"/>'
    classifier, end = map(quoteattr, kind)
    return f"<artifact name={quoteattr(module)} type={end} ext={end} m:classifier={classifier}/>"


def _why(lines: Sequence[str]) -> str:
    """The cause of the failure in the last lines of Ivy's output."""
    for pattern in (_CAUSE, _NOT_FOUND):
        if found := dict.fromkeys(match[1] for line in lines if (match := pattern.search(line))):
            return "; ".join(found)
    return " / ".join(list(lines)[-6:])


def proxy_arguments(environment: Mapping[str, str]) -> list[str]:
    """Java options for the proxy that the environment names: Java does not read those variables."""
    arguments = []
    for scheme in ("http", "https"):
        address = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if address:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            arguments.append(f"-D{scheme}.proxyHost={parts.hostname}")
            arguments += [f"-D{scheme}.proxyPort={parts.port}"] if parts.port else []
    return arguments


def _command(java: Java, work: Path, into: Path, environment: Mapping[str, str]) -> list[str]:
    return [
        str(java.binary),
        "-Xmx256m",
        f"-Dsun.net.client.defaultConnectTimeout={_CONNECT_MS_MAX}",
        f"-Dsun.net.client.defaultReadTimeout={_READ_MS_MAX}",
        f"-Divy.default.ivy.user.dir={work / 'user'}",
        *proxy_arguments(environment),
        *_trust_arguments(java, work),
        "-jar",
        str(_ivy_jar()),
        "-settings",
        environment.get(SETTINGS_VARIABLE) or str(work / "settings.xml"),
        "-ivy",
        str(work / "ivy.xml"),
        "-cache",
        str(work / "cache"),
        "-retrieve",
        f"{into}/[artifact]-[revision](-[classifier]).[ext]",
    ]


def _trust_arguments(java: Java, work: Path) -> list[str]:
    """The wheel's Java knows only public authorities: show it those that this machine trusts."""
    if java.kind != "wheel":
        return []
    if _DEBIAN_TRUST_STORE.is_file():
        return [f"-Djavax.net.ssl.trustStore={_DEBIAN_TRUST_STORE}"]
    trusted = certificates()
    if not trusted:
        return []
    write_trust_store(work / "trust.jks", trusted)
    return [f"-Djavax.net.ssl.trustStore={work / 'trust.jks'}", "-Djavax.net.ssl.trustStoreType=JKS"]


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise PermanentError(
            "PySpark, which brings Ivy, is not installed: run `make setup`, or pip install 'crossline[spark]'"
        )
    return found[-1]
