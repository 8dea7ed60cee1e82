"""The rule types there are: every module in ``types/`` is read and registers what it defines; a new type is a file.

Other packages bring theirs by entry points of the group ``crossline.rule_types``, by the name of the type.
"""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable
from typing import TypeVar

from crossline.basics import plugins
from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import Finding, nearest, one_of, shown
from crossline.rules import types
from crossline.rules.base import Rule

_CLASSES: dict[str, type[Rule]] = {}
_scanned: list[bool] = []
_R = TypeVar("_R", bound=Rule)


def rule_type(name: str) -> Callable[[type[_R]], type[_R]]:
    """Class decorator: the class reads rules of ``rule_type: name``. Raises ValueError where the name is taken."""

    def register(cls: type[_R]) -> type[_R]:
        taken = _CLASSES.get(name)
        if taken is not None and taken is not cls:
            raise ValueError(f"rule_type {name} is {taken.__module__}.{taken.__name__} already")
        _CLASSES[name] = cls
        return cls

    return register


def _in_file_of(name: str) -> type[Rule] | None:
    """The type whose file has its name, as ours have: most commands need one or two types, and none of the others."""
    if not name.isidentifier() or importlib.util.find_spec(f"{types.__name__}.{name}") is None:
        return None
    importlib.import_module(f"{types.__name__}.{name}")
    return _CLASSES.get(name)


def _own() -> dict[str, type[Rule]]:
    """Those that are registered."""
    if not _scanned:
        for module in pkgutil.iter_modules(types.__path__):
            importlib.import_module(f"{types.__name__}.{module.name}")
        _scanned.append(True)
    return _CLASSES


def _plugin(name: str) -> type[Rule] | None:
    """The type that another package brings by this name, registered; None: none does."""
    found: type[Rule] | None = plugins.load_plugin(plugins.RULE_TYPES, name, Rule)
    if found is not None:
        try:
            rule_type(name)(found)
        except ValueError as error:
            raise UsageError(f"{error}; uninstall the package that brings another, or have it renamed") from None
    return found


def rule_types() -> dict[str, type[Rule]]:
    """Every rule type by name, sorted, those of other packages included.

    Raises UsageError where one of another package cannot be loaded, or has the name of another type.
    """
    _own()
    for name in plugins.plugins(plugins.RULE_TYPES):
        _plugin(name)
    return dict(sorted(_CLASSES.items()))


def rule_class(name: object) -> type[Rule] | None:
    """The class of ``rule_type: name``, None where there is none. Other packages are asked for what is not here.

    Raises UsageError where one of another package cannot be loaded.
    """
    if not isinstance(name, str):
        return None
    return _CLASSES.get(name) or _in_file_of(name) or _own().get(name) or _plugin(name)


def find_rule_type(name: object, given: bool = True) -> type[Rule] | Finding:
    """The class of ``rule_type: name``, or what to say where there is none."""
    found = rule_class(name)
    if found is not None:
        return found
    known = rule_types()
    return Finding(("rule_type",), shown(name) if given else "nothing", one_of(known, 30), nearest(name, known))
