"""The aggregates there are: every module of ``aggregates`` declares one; so do entry points of other packages.

A package of another author names its module under ``crossline.aggregates``; as here, the module has an ``AGGREGATE``.
"""

from __future__ import annotations

import importlib
import inspect
import keyword
import pkgutil
from functools import cache
from types import MappingProxyType, ModuleType

from crossline.basics.errors import UsageError
from crossline.basics.plugins import AGGREGATES, load_modules
from crossline.programs.aggregate import Aggregate

_PACKAGE = "crossline.aggregates"


def _modules() -> list[ModuleType]:
    """Our own, then those of other packages, each by name."""
    package = importlib.import_module(_PACKAGE)
    own = sorted(each.name for each in pkgutil.iter_modules(package.__path__))
    return [*(importlib.import_module(f"{_PACKAGE}.{name}") for name in own), *load_modules(AGGREGATES)]


def collected(modules: list[ModuleType]) -> dict[str, Aggregate]:
    """The aggregates that ``modules`` declare, by name, in the order of their places.

    Raises:
        UsageError: a module without one, two of one name, or a name that cannot be written in a rule.
    """
    found: dict[str, tuple[Aggregate, str]] = {}
    for module in modules:
        declared = getattr(module, "AGGREGATE", None)
        if not isinstance(declared, Aggregate):
            raise UsageError(f"{module.__name__} declares no aggregate: AGGREGATE = Aggregate(...) is expected")
        name = declared.name
        if name in found:
            raise UsageError(f"{module.__name__}: the aggregate {name} is declared by {found[name][1]} already")
        if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
            raise UsageError(f"{module.__name__}: {name!r} is no name of an aggregate: small letters, digits and _ are")
        found[name] = declared, module.__name__
    in_order = sorted(found.values(), key=lambda each: (each[0].place, each[0].name))
    return {declared.name: declared for declared, _ in in_order}


@cache
def aggregates() -> MappingProxyType[str, Aggregate]:
    """Every aggregate by name, in the order of lists and tables."""
    return MappingProxyType(collected(_modules()))


def foreign_sources() -> bytes:
    """The text of the modules of other packages that declare aggregates: what is compiled is made of them too."""
    return "".join(map(inspect.getsource, load_modules(AGGREGATES))).encode()


def declared(name: str) -> Aggregate:
    """The aggregate of that name. Raises ValueError where there is none."""
    found = aggregates().get(name)
    if found is None:
        raise ValueError(f"{name} is no aggregate: there are {', '.join(aggregates())}")
    return found


@cache
def names(*, of_records: bool | None = None, written_plainly: bool = True) -> tuple[str, ...]:
    """The names that rules write, of records or of a field alone (None: both).

    ``written_plainly``: without those that need parameters.
    """
    return tuple(
        name
        for name, each in aggregates().items()
        if not each.hidden
        and (of_records is None or each.of_records == of_records)
        and (each.parameters is None or not written_plainly)
    )


@cache
def counted_names() -> tuple[str, ...]:
    """Those that a rule compares with a threshold: the count, those of numbers, then those of any values."""
    plain = [aggregates()[name] for name in names(of_records=False)]
    return ("count", *(each.name for each in sorted(plain, key=lambda each: each.takes == "values")))
