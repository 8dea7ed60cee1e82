"""The rule types there are: every module in ``types/`` is read and registers what it defines; a new type is a file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TypeVar

from crossline.core.rules import types
from crossline.core.rules.base import Rule
from crossline.core.texts.problems import Finding, nearest, one_of, shown

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


def rule_types() -> dict[str, type[Rule]]:
    """Every rule type by name, sorted."""
    if not _scanned:
        for module in pkgutil.iter_modules(types.__path__):
            importlib.import_module(f"{types.__name__}.{module.name}")
        _scanned.append(True)
    return dict(sorted(_CLASSES.items()))


def find_rule_type(name: object, given: bool = True) -> type[Rule] | Finding:
    """The class of ``rule_type: name``, or what to say where there is none."""
    known = rule_types()
    if isinstance(name, str) and name in known:
        return known[name]
    return Finding(("rule_type",), shown(name) if given else "nothing", one_of(known, 30), nearest(name, known))
