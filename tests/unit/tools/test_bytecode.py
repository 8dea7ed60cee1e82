"""Bytecode is compiled ahead, also where imports leave none, and none outlives the source that it was made of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BYTECODE = Path(__file__).parents[3] / "tools" / "bytecode.py"
# As images have it; where a prefix is set bytecode stands elsewhere, and a hash is no matter of the one who runs this.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("PYTHONPYCACHEPREFIX", "SOURCE_DATE_EPOCH")},
    "PYTHONDONTWRITEBYTECODE": "1",
}


def compiled(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BYTECODE), *map(str, arguments)]
    return subprocess.run(
        command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False, timeout=300
    )


def imported(folder: Path, module: str) -> list[str]:
    """What ``module.SAID`` is, and what Python read it from, by Python's own account."""
    program = f"import {module}; print({module}.SAID)"
    done = subprocess.run(
        [sys.executable, "-v", "-c", program],
        env={**ENVIRONMENT, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    read = f"# {folder}/__pycache__/{module}."
    matched = any(line.startswith(read) and "matches" in line for line in done.stderr.splitlines())
    return [done.stdout.strip(), "bytecode" if matched else "source"]


def bytecode_of(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"


def test_packages_and_sources_are_compiled_though_imports_are_to_leave_nothing(tmp_path: Path) -> None:
    site, src = tmp_path / "tests" / "site", tmp_path / "src"  # one that stands below a folder of tests
    for source in (site / "package" / "one.py", site / "package" / "tests" / "two.py", src / "ours" / "three.py"):
        source.parent.mkdir(parents=True)
        source.write_text("SAID = 1\n")
    done = compiled("--packages", site, "--sources", src)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert bytecode_of(site / "package" / "one.py").is_file()
    assert bytecode_of(src / "ours" / "three.py").is_file()
    assert not bytecode_of(site / "package" / "tests" / "two.py").exists()
    assert imported(site / "package", "one") == ["1", "bytecode"]
    assert imported(src / "ours", "three") == ["1", "bytecode"]


@pytest.mark.parametrize("epoch", [{}, {"SOURCE_DATE_EPOCH": "0"}])
def test_an_edited_source_counts_whatever_its_time_and_size(tmp_path: Path, epoch: dict[str, str]) -> None:
    source = tmp_path / "ours.py"
    source.write_text("SAID = 'before'\n")
    was = source.stat()
    assert compiled("--sources", tmp_path, **epoch).returncode == 0
    source.write_text("SAID = 'beyond'\n")
    os.utime(source, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert (source.stat().st_size, source.stat().st_mtime_ns) == (was.st_size, was.st_mtime_ns)
    assert imported(tmp_path, "ours") == ["beyond", "source"]
    assert compiled("--sources", tmp_path, **epoch).returncode == 0
    assert imported(tmp_path, "ours") == ["beyond", "bytecode"]


def test_what_is_compiled_is_left_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "ours.py"
    source.write_text("SAID = 1\n")
    compiled("--sources", tmp_path)
    made = bytecode_of(source).stat()
    compiled("--sources", tmp_path)
    again = bytecode_of(source).stat()
    assert (again.st_ino, again.st_mtime_ns) == (made.st_ino, made.st_mtime_ns)


def test_bytecode_that_goes_by_the_time_gives_way_to_one_that_goes_by_the_hash(tmp_path: Path) -> None:
    source = tmp_path / "ours.py"
    source.write_text("SAID = 1\n")
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(tmp_path)], env=ENVIRONMENT, check=True)
    assert bytecode_of(source).read_bytes()[4:8] == bytes(4)
    assert compiled("--sources", tmp_path).returncode == 0
    assert bytecode_of(source).read_bytes()[4:8] == bytes([3, 0, 0, 0])


def test_what_does_not_compile_is_reported_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("SAID = = 1\n")
    (tmp_path / "good.py").write_text("SAID = 1\n")
    of_ours = compiled("--sources", tmp_path)
    assert of_ours.returncode == 1
    assert str(tmp_path / "bad.py") in of_ours.stderr
    assert bytecode_of(tmp_path / "good.py").is_file()
    of_others = compiled("--packages", tmp_path)
    assert of_others.returncode == 0
    assert "bad.py" in of_others.stdout + of_others.stderr
    assert "some packages have no bytecode" in of_others.stderr
