"""Functions that become machine code: ``Kernel``, which Python calls; ``part.Part`` is what compiled code calls.

A module that declares them does not load numba. A kernel is loaded from its file (``files``) by llvmlite alone
(``native``); where there is none, ``compiling`` loads numba, and compiles the kernel with all its parts. Processes that
need the same kernel wait for one that compiles it (``turns``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from crossline.basics.kernels import files
from crossline.basics.kernels.part import IN_PYTHON, Part
from crossline.basics.turns import turn_of


class Kernel(Part):
    """A function that Python calls with arrays, integers and floats; within other kernels it is a part.

    Args:
        function: What is compiled. It allocates nothing.
        sources: The digest of the sources of ``function`` and of all that it calls, asked for at the first call.
        options: Those of numba.
        make: Its part, where compiled code calls it too.

    Raises:
        TypeError: ``function`` has variables of a closure.

    Example:
        >>> def twice(x: int) -> int:
        ...     return 2 * x
        >>> Kernel(twice, lambda: b"")(4)
        8
    """

    def __init__(
        self,
        function: Callable[..., Any],
        sources: Callable[[], bytes],
        options: dict[str, Any] | None = None,
        make: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(make or (lambda: None), function.__qualname__)
        if function.__closure__:
            names = ", ".join(function.__code__.co_freevars)
            raise TypeError(f"{self._name}: found variables of a closure ({names}): no kernel is kept by them")
        self.function, self._sources, self._options = function, sources, options or {}
        self._by_kinds: dict[tuple[str, ...], Callable[..., Any]] = {}
        local = function.__qualname__.rpartition("<locals>.")[2]
        self.named = f"{function.__module__}:{local}"

    def __call__(self, *values: Any) -> Any:
        """Its result. Raises TypeError for other arguments, and what it raises itself."""
        if IN_PYTHON:
            return self.function(*values)
        from crossline.basics.kernels.native import kind_of  # noqa: PLC0415 - loads llvmlite, for who runs a kernel

        return self.of(*map(kind_of, values))(*values)

    def of(self, *kinds: str) -> Callable[..., Any]:
        """The function for arguments of ``kinds`` (see ``native.kind_of``), loaded or compiled now."""
        if IN_PYTHON:
            return self.function
        found = self._by_kinds.get(kinds)
        if found is None:
            found = self._by_kinds[kinds] = self._found(kinds)
        return found

    def _found(self, kinds: tuple[str, ...]) -> Callable[..., Any]:
        from crossline.basics.kernels import native  # noqa: PLC0415

        key = files.key_of(self._turn_name, (*kinds, repr(sorted(self._options.items()))), self._sources())
        code = files.load(self.named, key)
        if code is None:
            code = self._compiled(kinds, key)
        return native.loaded(code, kinds)

    def _compiled(self, kinds: tuple[str, ...], key: bytes) -> files.Code:
        """Compiled in this process, or in another one for which this one waited."""
        from crossline.basics.kernels import compiling  # noqa: PLC0415

        turn = turn_of()
        with compiling.one_thread():
            files.make_folder(self.named)
            alone = (
                nullcontext(lambda: None) if turn is None else turn(self._turn_name, str(files.folder_of(self.named)))
            )
            with alone as begins:
                code = files.load(self.named, key)
                if code is None:
                    begins()
                    code = compiling.compiled(self.function, kinds, self._options)
                    if compiling.stands_alone(code):
                        files.keep(self.named, key, code)
        return code

    @property
    def _turn_name(self) -> str:
        return f"{self.function.__module__}.{self.function.__qualname__}"
