"""Kernels on disk: one file of object code each, in one folder of the user for all checkouts and environments.

A file's name is the digest of all that its code depends on: the sources, the kinds of the arguments, the versions of
what compiles, the processor, numba's settings. The file contains the whole key and a checksum too. A file that is
missing, cut, damaged, of another key or of another user is not there; the kernel is compiled then.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from crossline.basics.kernels.own_files import read_own, replace_own

FORMAT = b"crossline kernel 1\n"
KEPT_MAX = 12  # files of one kernel: of checkouts, processors and kinds of arguments; the latest stay
_DIGEST_BYTES = 32
# Where numba keeps its own files changes no code.
_NO_CODE = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", "NUMBA_CACHE_LOCATOR_CLASSES"}


class Code(NamedTuple):
    """Object code; the name of its function; what it returns: ``int64``, ``uint64``, ``float64`` or ``none``."""

    object_code: bytes
    symbol: str
    returns: str


@cache
def sources_of(*packages: str) -> bytes:
    """The digest of all Python sources in ``packages`` and in what stands below them.

    Raises:
        ModuleNotFoundError: there is no such package.
    """
    found = sha256()
    for package in packages:
        for path in _sources_below(package):
            text = path.read_bytes()
            found.update(f"{package} {path.name} {len(text)}\n".encode() + text)
    return found.digest()


def _sources_below(package: str) -> Iterator[Path]:
    spec = find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError(f"{package} is no package: kernels are kept by the sources of packages")
    for top in spec.submodule_search_locations:
        for folder, below, names in os.walk(top):
            below.sort()
            yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def setting(name: str) -> int:
    """The whole number that the environment has for one of numba's settings; 0: none.

    Raises:
        ValueError: the environment has another text there.
    """
    text = os.environ.get(name, "") or "0"
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"environment: {name}: found {text!r}, expected a whole number such as 0 or 1") from error


@cache
def _made_with() -> tuple[str, ...]:
    """The versions of all that makes code, and the settings of numba in the environment."""
    spec = find_spec("numba")
    numba = b""
    if spec is not None and spec.submodule_search_locations is not None:
        numba = Path(spec.submodule_search_locations[0], "_version.py").read_bytes()
    import llvmlite  # type: ignore[import-untyped]  # noqa: PLC0415 - takes long, for who runs a kernel
    import numpy as np  # noqa: PLC0415

    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _NO_CODE)
    versions = (sys.version, sysconfig.get_platform(), sha256(numba).hexdigest(), llvmlite.__version__, np.__version__)
    return (*versions, *_processor(), *settings)


def _processor() -> tuple[str, ...]:
    """Whose instructions code may have. Code for a named processor without features may run on any machine."""
    from llvmlite import binding  # noqa: PLC0415

    triple: str = binding.get_process_triple()
    name, features = os.environ.get("NUMBA_CPU_NAME"), os.environ.get("NUMBA_CPU_FEATURES")
    if features is None and name != "generic":
        features = binding.get_host_cpu_features().flatten()
    return triple, name or binding.get_host_cpu_name(), features or ""


def key_of(kernel: str, kinds: tuple[str, ...], sources: bytes) -> bytes:
    """All that the code of ``kernel`` (its module and name) for arguments of ``kinds`` depends on, as a text."""
    lines = (kernel, *kinds, sources.hex(), sources_of(__package__ or "").hex(), *_made_with())
    return "\n".join(lines).encode()


def folder_of(kernel: str) -> Path:
    """The folder of the files of a kernel's module.

    ``$NUMBA_CACHE_DIR/crossline``; else ``crossline/kernels`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    users = os.environ.get("XDG_CACHE_HOME")
    if given:
        top = Path(given, "crossline")
    else:
        top = (Path(users) if users else Path("~/.cache").expanduser()) / "crossline" / "kernels"
    return top / kernel.partition(":")[0]


def _path(kernel: str, key: bytes) -> Path:
    return folder_of(kernel) / f"{kernel.partition(':')[2]}-{sha256(key).hexdigest()[:32]}.kernel"


def load(kernel: str, key: bytes) -> Code | None:
    """What is kept by ``key``; None: nothing that can be used."""
    text = read_own(_path(kernel, key))
    return None if text is None else decoded(text, key)


def encoded(key: bytes, code: Code) -> bytes:
    """The bytes of a file."""
    parts = [key, code.symbol.encode(), code.returns.encode(), code.object_code]
    body = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return FORMAT + sha256(body).digest() + body


def decoded(text: bytes, key: bytes) -> Code | None:
    """The code of ``encoded``; None: it is not whole, or of another key."""
    start = len(FORMAT) + _DIGEST_BYTES
    body = text[start:]
    if not text.startswith(FORMAT) or sha256(body).digest() != text[len(FORMAT) : start]:
        return None
    parts, at = list[bytes](), 0
    while at < len(body):
        size = int.from_bytes(body[at : at + 8], "little")
        parts.append(body[at + 8 : at + 8 + size])
        at += 8 + size
    match parts:
        case [found, symbol, returns, object_code] if found == key:
            return Code(object_code, symbol.decode(), returns.decode())
    return None


def make_folder(kernel: str) -> None:
    """Make the folder of the kernel's files, in which the lock of who compiles lies too, where that is possible."""
    with suppress(OSError):
        folder_of(kernel).mkdir(parents=True, exist_ok=True)


def keep(kernel: str, key: bytes, code: Code) -> bool:
    """Write it, whole or not at all, and remove the oldest files of the kernel; False: the folder takes no files."""
    path = _path(kernel, key)
    if not replace_own(path, encoded(key, code)):
        return False
    _remove_oldest(path)
    return True


def _remove_oldest(path: Path) -> None:
    """All but the latest files of the kernel of ``path``, and what killed processes left of it."""
    stem = f"{path.name.rpartition('-')[0]}-"
    with suppress(OSError):
        found = [each for each in path.parent.iterdir() if each.name.startswith(stem)]
        found.sort(key=lambda each: each.stat().st_mtime_ns, reverse=True)
        for each in found[KEPT_MAX:]:
            each.unlink(missing_ok=True)
