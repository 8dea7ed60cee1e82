"""Functions that only compiled code calls: lowered, and optimized as part of what calls them, not each by itself.

Numba takes every function for one that Python may call. It links into it all that it calls, optimizes the whole, and
makes machine code of it; and again for what calls that, up to the function that is called in fact. Of a kernel of some
hundred functions that was most of its compilation. A part is what numba lowers it to, and nothing is made of it before
the function that Python calls is linked of all of them. That is a door, where nothing compiled calls it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from llvmlite import binding  # type: ignore[import-untyped]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler

_EXTERNAL, _ODR = binding.Linkage.external, binding.Linkage.linkonce_odr
# What Python meets where it calls a part all the same, with the signature of what numba would have compiled for it: a
# TypeError, since what numba hands over in the place of a function cannot be called.
_REFUSES = ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p).value


class Part(Compiler):  # type: ignore[misc]
    """Numba's compiler for a part: ``njit(**PART)``."""

    def define_pipelines(self) -> Any:
        """Those of numba, into a library that is not made ready to run."""
        if self.state.library is None:
            self.state.library = _Part(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class Door(Compiler):  # type: ignore[misc]
    """Numba's compiler for what Python alone calls: ``njit(cache=True, **DOOR)``."""

    def define_pipelines(self) -> Any:
        """Those of numba, into a library that is kept without what others would be linked of."""
        if self.state.library is None:
            self.state.library = _Door(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
        return super().define_pipelines()


PART: dict[str, Any] = {"pipeline_class": Part, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

DOOR: dict[str, Any] = {"pipeline_class": Door}

# As a door, without what Python calls it by: for ``native``.
KERNEL: dict[str, Any] = {"pipeline_class": Door, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Door(JITCodeLibrary):  # type: ignore[misc]
    """Is kept as machine code and names; to read what numba keeps besides takes longer than all else of a load."""

    _shared_module: Any

    def get_pointer_to_function(self, name: str) -> int | None:
        """Its address; where it has no such function, what refuses to be called."""
        return super().get_pointer_to_function(name) or _REFUSES

    def _optimize_final_module(self) -> None:
        """Whatever it is linked of is its own.

        Numba numbers functions in each process anew, and their symbols have these numbers. Of two doors that were kept
        by two processes, or of one that was kept and one that is compiled now, functions of one name made of different
        closures may have the same symbol; the one loaded first would stand for both.
        """
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == _ODR:
                function.linkage = "internal"
        super()._optimize_final_module()

    def _get_module_for_linking(self) -> Any:
        """What is defined here, by name, with empty bodies: nothing is linked from it."""
        self._ensure_finalized()
        if self._shared_module is None:
            names = [each.name for each in self._final_module.functions if not each.is_declaration]
            text = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
            self._shared_module = binding.parse_assembly(text)
        return self._shared_module


class _Part(JITCodeLibrary):  # type: ignore[misc]
    """What a part was lowered to, and what it calls."""

    _shared_module: Any

    @property
    def codegen(self) -> Any:
        """Nothing of a part is at an address: what Python would lend it is lent to who is linked of it."""
        return SimpleNamespace(set_env=lambda name, env: None)  # noqa: ARG005

    def finalize(self) -> None:
        """Nothing can be added from now on."""
        self._raise_if_finalized()
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)  # noqa: SLF001
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int | None:  # noqa: ARG002 - there is none, whichever it is
        """What refuses to be called."""
        self._ensure_finalized()
        return _REFUSES

    def _get_module_for_linking(self) -> Any:
        """All of it, with what it calls, for who is no part."""
        self._ensure_finalized()
        if self._shared_module is None:
            whole = self._final_module.clone()
            for library in self._below({}):
                is_part = isinstance(library, _Part)
                whole.link_in(library._final_module if is_part else library._get_module_for_linking(), preserve=True)  # noqa: SLF001
            for function in whole.functions:
                if not function.is_declaration and function.linkage == _EXTERNAL:
                    function.linkage = "linkonce_odr"  # others may be linked of the same parts
            self._shared_module = whole
        return self._shared_module

    def _below(self, seen: dict[Any, None]) -> Iterator[Any]:
        """The libraries that this one calls, and those that they call where they are parts too; each once."""
        for library in self._linking_libraries:
            if library in seen:
                continue
            seen[library] = None
            yield library
            if isinstance(library, _Part):
                yield from library._below(seen)  # noqa: SLF001
