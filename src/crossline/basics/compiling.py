"""Compiled functions that processes share: one compiles what is missing, and the others wait and load it.

Numba caches a compiled function beside its source, and loads it again. Three things are missing there. Its cache key
covers only the file of the function, and not those of the functions it calls: here the key covers the sources of whole
packages, and the switches that choose a build. Its index names a cache file before that file is written, and a file of
older sources may stand there: here the file, too, contains its key. And each process compiles what it does not find:
``turns`` has the other processes wait meanwhile. It is passed in, since the core has no files, no processes and no
clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any, cast

from numba import config
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys

from crossline.basics.turns import turn_of


@cache
def sources_of(*packages: str) -> bytes:
    """The digest of all Python sources in ``packages`` and in what stands below them."""
    found = sha256()
    folders = [resources.files(package) for package in packages]
    while folders:
        for source in sorted(folders.pop().iterdir(), key=lambda file: file.name):
            if source.is_dir():
                folders.append(source)
            elif source.name.endswith(".py"):
                found.update(source.read_bytes())
    return found.digest()


@cache
def _linking() -> bytes:
    """The digest of how functions are put together (``parts``), of which compilations are made as well."""
    return sha256((resources.files("crossline.basics") / "parts.py").read_bytes()).digest()


def shared(function: Any, *packages: str) -> Any:
    """``function``, just made by ``njit(cache=True)`` and not compiled yet, as one that processes share.

    ``packages``: the packages of its sources, where these are more than its own file. A function that numba does not
    compile, by its configuration, is returned as it is.
    """
    if not isinstance(function, Dispatcher):
        return function
    kept, made = _Shared(function.py_func, packages), cast("Any", function)
    compile_it = made.compile

    def compile_alone(signature: Any) -> Any:
        with global_compiler_lock, kept.alone():
            return compile_it(signature)

    made._cache = kept  # noqa: SLF001 - what `enable_caching` does
    made.compile = compile_alone
    return made


def compiled_for(function: Any, signature: Any) -> Any:
    """``shared``, compiled for ``signature`` and nothing else."""
    made = shared(function)
    if isinstance(made, Dispatcher):
        made.compile(signature)
        made.disable_compile()
    return made


class _Kept(IndexDataCacheFile):  # type: ignore[misc]
    """A cache file contains the key of its sources: code of other sources would read memory in another layout.

    It lies there under its name, for a later process then, while a newer one is written, and for good where the process
    that writes it is killed.
    """

    def save(self, key: Any, data: Any) -> None:
        """Keep ``data`` by ``key``."""
        super().save(key, (self._source_stamp, key, data))

    def load(self, key: Any) -> Any:
        """What is kept by ``key``; None: nothing is."""
        match super().load(key):
            case (stamp, known, data) if (stamp, known) == (self._source_stamp, key):
                return data
        return None


class _Shared(FunctionCache):  # type: ignore[misc]
    """What numba asks for a compilation before it compiles, and gives one to that it has made."""

    def __init__(self, function: Any, packages: tuple[str, ...]) -> None:
        super().__init__(function)
        self._cache_file = _Kept(self.cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())
        self._packages = packages
        self._named = f"{function.__module__}.{function.__qualname__}"
        self._held = ExitStack()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """What is entered where nothing is found is left here, however the compilation ends."""
        before, self._held = self._held, ExitStack()
        try:
            yield
        finally:
            held, self._held = self._held, before
            held.close()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """A compilation of before; None: there is none, and none will come from elsewhere."""
        found = self._loaded(sig, target_context)
        turn = turn_of()
        if found is None and turn is not None:
            begins = self._held.enter_context(turn(self._named, self.cache_path))
            found = self._loaded(sig, target_context)
            if found is None:
                begins()
        return found

    def _loaded(self, sig: Any, target_context: Any) -> Any:
        """As numba does it, without all that it knows how to compile: half a start of numba, for who compiles."""
        rtsys.initialize(target_context)  # what compiled code counts references with
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)
        return None  # what is there cannot be read

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        build = (bool(config.BOUNDSCHECK), str(config.OPT))
        sources = sources_of(*self._packages) if self._packages else b""
        return (*super()._index_key(sig, codegen), sources, build, _linking())
