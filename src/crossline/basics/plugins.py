"""What other packages bring by entry points: rule types, aggregates, sinks. None is loaded before it is asked for.

A package declares it in its pyproject.toml:

    [project.entry-points."crossline.rule_types"]
    at_least = "shop_rules.at_least:AtLeastRule"
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from crossline.basics.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["crossline.rule_types", "crossline.aggregates", "crossline.sinks"]
RULE_TYPES: Group = "crossline.rule_types"
AGGREGATES: Group = "crossline.aggregates"
SINKS: Group = "crossline.sinks"


@cache
def plugins(group: Group) -> dict[str, EntryPoint]:
    """The entry points of ``group`` by name, as they were when they were first asked for; loads none of them.

    Raises UsageError where two packages have one of the same name.
    """
    if not some_bring_any(tuple(sys.path)):
        return {}
    from importlib.metadata import entry_points  # noqa: PLC0415 - mostly it is not needed

    found: dict[str, EntryPoint] = {}
    for each in entry_points(group=group):
        other = found.setdefault(each.name, each)
        if other.value != each.value:
            raise UsageError(
                f"two packages bring {each.name} for {group}: {_package(other)} ({other.value}) and {_package(each)} "
                f"({each.value}); uninstall one of them"
            )
    return dict(sorted(found.items()))


@cache
def some_bring_any(path: tuple[str, ...]) -> bool:
    """Whether entry points of some package on ``path``, which is Python's, may be of our groups; mostly none are.

    ``importlib.metadata`` takes some 20 ms to load and to look through the packages, once for each group. This reads
    the files that it would read. Where it might find packages in another way, it is asked.
    """
    for place in path:
        try:
            names = [each.name for each in Path(place or ".").iterdir()]
        except NotADirectoryError:  # an archive
            return True
        except OSError:
            continue
        for name in names:
            if name.endswith(".egg"):
                return True
            if name.endswith((".dist-info", ".egg-info")) and _are_ours(Path(place, name, "entry_points.txt")):
                return True
    return False


def _are_ours(entry_points: Path) -> bool:
    try:
        text = entry_points.read_bytes()
    except OSError:
        return False
    return any(group.encode() in text for group in (RULE_TYPES, AGGREGATES, SINKS))


def load_plugin(group: Group, name: str, kind: type) -> Any:
    """The class that a package brings as ``name``, a subclass of ``kind``; None where none does.

    Raises UsageError where it cannot be loaded, or is something else.
    """
    entry = plugins(group).get(name)
    if entry is None:
        return None
    found = _loaded(group, entry)
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UsageError(
            f"{name} of package {_package(entry)} ({entry.value}): found {found!r}; expected a subclass of "
            f"{kind.__module__}.{kind.__qualname__}, which {group} asks for"
        )
    return found


def load_modules(group: Group) -> list[ModuleType]:
    """The modules that packages bring for ``group``, by name.

    Raises UsageError where one cannot be loaded, or is no module.
    """
    found = []
    for name, entry in plugins(group).items():
        module = _loaded(group, entry)
        if not isinstance(module, ModuleType):
            raise UsageError(
                f"{name} of package {_package(entry)} ({entry.value}): found {module!r}; expected a module, which "
                f"{group} asks for"
            )
        found.append(module)
    return found


def _loaded(group: Group, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{entry.name} of package {_package(entry)} ({entry.value}) cannot be loaded for {group}: {text}; install "
            "a version of the package that fits this crossline, or uninstall it"
        ) from error


def _package(entry: EntryPoint) -> str:
    return "of no name" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
