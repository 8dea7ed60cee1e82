"""What make runs, and how the machine's settings reach the installer. Nothing is installed here."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from crossline.runtime.workers.kernel_warmup import HALVES
from e2e.ended import still_running

ROOT = Path(__file__).parents[3]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("crossline_setup", ROOT / "tools" / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


setup = load()


def without_make(environment: Mapping[str, str]) -> dict[str, str]:
    """The suite may itself run under make, whose variables would reach the one under test."""
    return {
        name: value for name, value in environment.items() if not name.startswith(("MAKE", "MFLAGS", "ARGS", "PYTHON"))
    }


def find_python(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", ROOT / "tools" / "find-python.sh"],
        env={**without_make(os.environ), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def fake_python(path: Path, *, minor: int, venv: bool) -> Path:
    """A command that answers the two questions as a Python 3.``minor`` would, with or without the module venv."""
    path.write_text(
        f"""#!/bin/sh
case "$2" in
  *ensurepip*) exit {0 if venv else 1} ;;
  *MINOR_MIN*|*exit*) [ {minor} -ge 11 ] ;;
  *print*) echo 3.{minor} ;;
esac
"""
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("target", "commands"),
    [
        ("setup", ["tools/setup.py"]),
        ("demo", ["tools/setup.py demo", ".venv/bin/crossline demo"]),
        (
            "test",
            [
                "tools/setup.py broker s3 iceberg spark-iceberg browser site",
                ".venv/bin/python -m pytest -n 3 --dist loadgroup",
            ],
        ),
        ("services", ["tools/setup.py broker registry s3 iceberg", ".venv/bin/python -m dev.services"]),
        ("services-status", [".venv/bin/python -m dev.services status"]),
        ("services-stop", [".venv/bin/python -m dev.services stop"]),
        ("docs", ["tools/setup.py site", ".venv/bin/python -m mkdocs build --strict"]),
        ("bench", ["tools/setup.py broker", ".venv/bin/python -m bench"]),
        ("lint", ["tools/setup.py site", ".venv/bin/ruff check", ".venv/bin/ruff format --check", ".venv/bin/mypy"]),
    ],
)
def test_a_target_sets_up_and_then_does_its_work(target: str, commands: list[str]) -> None:
    made = subprocess.run(
        ["make", "-n", target], cwd=ROOT, env=without_make(os.environ), capture_output=True, text=True, check=True
    ).stdout.replace('"', "")
    lines = made.splitlines()
    assert len(lines) == len(commands)
    for line, command in zip(lines, commands, strict=True):
        assert line.rstrip().endswith(command)


def test_a_python_that_fits_is_found(tmp_path: Path) -> None:
    fitting = fake_python(tmp_path / "fitting", minor=11, venv=True)
    assert find_python(PYTHON=str(fitting)).stdout.strip() == str(fitting)
    assert find_python(PYTHON=sys.executable).stdout.strip() == sys.executable


def test_an_old_python_is_passed_over_for_a_newer_one(tmp_path: Path) -> None:
    fake_python(tmp_path / "python3", minor=9, venv=True)
    fake_python(tmp_path / "python3.12", minor=12, venv=True)
    assert find_python(PATH=str(tmp_path)).stdout == "python3.12\n"


@pytest.mark.parametrize(
    ("minor", "venv", "text"),
    [
        (9, True, "found no Python 3.11 or newer (looked for python3, python3.13, python3.12, python3.11)"),
        (12, False, "(Debian, Ubuntu: python3.12-venv)"),
    ],
)
def test_what_is_missing_is_stated(tmp_path: Path, minor: int, text: str, *, venv: bool) -> None:
    fake_python(tmp_path / "python3", minor=minor, venv=venv)
    done = find_python(PATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert text in done.stderr


def test_pips_settings_reach_uv_under_uvs_names(tmp_path: Path) -> None:
    pip = {"index-url": "https://mirror.example/simple", "cert": "/ca.pem", "find-links": f"{tmp_path} /no/such/folder"}
    environment = setup.uv_environment(pip, {"PATH": "/bin"})
    assert environment == {
        "PATH": "/bin",
        "UV_DEFAULT_INDEX": "https://mirror.example/simple",
        "SSL_CERT_FILE": "/ca.pem",
        "UV_FIND_LINKS": str(tmp_path),
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_what_uv_is_reported_already_stands() -> None:
    body = {"UV_DEFAULT_INDEX": "https://own.example/simple", "UV_INDEX_STRATEGY": "first-index"}
    assert setup.uv_environment({"index-url": "https://mirror.example/simple"}, body) == body


def test_pips_settings_are_read_from_files_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://file.example/simple\ntrusted-host = a.example\n b.example\n"
    )
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://environment.example/simple")
    found = setup.pip_settings(Path(sys.executable))
    assert found["index-url"] == "https://environment.example/simple"
    assert found["trusted-host"].split() == ["a.example", "b.example"]


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_each_locked_package_has_hashes_and_no_lock_names_an_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "://" not in text
    entries = re.split(r"\n(?=[a-z])", text.strip())
    assert all(re.match(r"[a-z0-9-]+==\S+", entry) and "--hash=sha256:" in entry for entry in entries)


def test_the_environment_of_this_python_is_current_and_another_is_not(tmp_path: Path) -> None:
    assert setup.is_current(Path(sys.executable))
    assert not setup.is_current(tmp_path / "no-such-python")
    assert not setup.is_current(fake_python(tmp_path / "other", minor=12, venv=True))


def test_set_up_compiles_bytecode_of_packages_once_and_of_ours_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    did: list[str] = []

    def ran(command: list[str], *_: object) -> None:
        did.append(" ".join(command).replace(f"{tmp_path}/", ""))

    @contextmanager
    def compiled(*_: object) -> Iterator[None]:
        did.append("kernels begun")
        yield
        did.append("kernels compiled")

    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "digest", lambda: "locks")
    monkeypatch.setattr(setup, "is_current", lambda _: True)
    monkeypatch.setattr(setup, "run", ran)
    monkeypatch.setattr(setup, "install", lambda *_: did.append("packages installed"))
    monkeypatch.setattr(setup, "ensure_java", lambda *_: did.append("java installed"))
    monkeypatch.setattr(setup, "compiled_kernels", compiled)
    monkeypatch.setattr(setup, "begin_kernels", lambda *_: did.append("kernels left to the demo"))
    monkeypatch.setattr(setup, "put_classes_by", lambda *_: None)
    ours = ".venv/bin/python tools/bytecode.py --sources src"
    jars = ".venv/bin/python tools/fetch.py local-fs spark-kafka"
    every = f"{ours} --packages .venv/lib/python3.11/site-packages"
    assert setup.main([]) == 0
    assert did == ["packages installed", "java installed", every, "kernels begun", jars, "kernels compiled"]
    did.clear()
    assert setup.main([]) == 0
    assert did == ["java installed", ours, "kernels begun", jars, "kernels compiled"]
    did.clear()
    assert setup.main(["demo"]) == 0
    assert did == ["java installed", ours, jars, "kernels left to the demo"]
    did.clear()
    monkeypatch.setattr(setup, "digest", lambda: "other locks")
    assert setup.main([]) == 0
    assert did == ["packages installed", "java installed", every, "kernels begun", jars, "kernels compiled"]


def test_what_builds_the_site_comes_once_and_again_with_a_new_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "run", lambda command, *_: did.append(command[-1]))
    monkeypatch.setattr(setup, "pip_settings", lambda _: {})
    lock, stamp = tmp_path / setup.SITE_LOCK, tmp_path / "stamp"
    lock.write_text("first")
    for wanted, text, installed in (("a", "first", 1), ("a", "first", 1), ("b", "first", 2), ("b", "second", 3)):
        lock.write_text(text)
        setup.ensure_site(tmp_path / "python", stamp, wanted)
        assert did == [str(lock)] * installed


def test_bytecode_that_cannot_be_compiled_is_reported_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(_: list[str], failed: str) -> None:
        raise setup.SetupError(failed)

    monkeypatch.setattr(setup, "ROOT", tmp_path)
    monkeypatch.setattr(setup, "run", failing)
    setup.compile_bytecode(Path("python"), tmp_path, "locks")
    assert "setup: some bytecode could not be compiled (see above): commands start slower" in capsys.readouterr().err
    assert not (tmp_path / "bytecode-done").exists()


def test_each_folder_of_compiled_functions_is_compiled_ahead() -> None:
    package = ROOT / "src" / "crossline"
    compilers = re.compile(r"kernel import .*\bKernel\b|ingest\.decode\.jit import")
    compiled = {path.parent for path in package.rglob("*.py") if compilers.search(path.read_text())}
    kept = [ROOT / folder for folder in setup.KERNELS]
    assert [folder for folder in compiled if not any(folder.is_relative_to(each) for each in kept)] == []
    assert [folder for folder in kept if not any(each.is_relative_to(folder) for each in compiled)] == []


def test_kernels_that_are_compiled_stay_though_the_rest_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, stamp = tmp_path / setup.KERNELS[0] / "kernel.py", tmp_path / "stamp"
    kept = kernel.parent / "__pycache__" / "kernel.nbi"
    for path in (kept, tmp_path / setup.WARM):
        path.parent.mkdir(parents=True)
        path.write_text("of other sources")
    kernel.write_text("source")
    monkeypatch.setattr(setup, "ROOT", tmp_path)

    @contextmanager
    def interrupted(*_: object, **__: object) -> Iterator[None]:
        assert not kept.exists()
        kept.write_text("of these sources")
        yield
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "beside", interrupted)
    with pytest.raises(KeyboardInterrupt), setup.compiled_kernels(Path("python"), stamp):
        pass
    monkeypatch.setattr(setup, "beside", lambda *_, **__: nullcontext())
    assert not stamp.exists()
    with pytest.raises(setup.SetupError, match="no jars"), setup.compiled_kernels(Path("python"), stamp):
        raise setup.SetupError("no jars")
    assert not stamp.exists(), "the rest is compiled by the next set-up"
    with setup.compiled_kernels(Path("python"), stamp):
        assert not stamp.exists()
    assert stamp.exists()
    assert kept.read_text() == "of these sources"


@pytest.mark.parametrize(
    ("tied", "number"),
    [(True, signal.SIGKILL), (True, signal.SIGTERM), (False, signal.SIGTERM), (False, signal.SIGINT)],
)
def test_a_set_up_that_is_stopped_leaves_no_step_behind(number: signal.Signals, *, tied: bool) -> None:
    work = (
        "import os, sys, time\nfrom crossline.runtime.machine.lifeline import watched_lifeline\n"
        "with watched_lifeline():\n"
        "    print(os.getpid(), file=sys.stderr, flush=True)\n    while True: time.sleep(0.01)"
    )
    program = (
        "import importlib.util, signal, sys\n"
        f"spec = importlib.util.spec_from_file_location('setup', {setup.__file__!r})\n"
        "setup = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(setup)\n"
        "signal.signal(signal.SIGTERM, setup.stop)\n"
        f"setup.run([sys.executable, '-c', {work!r}], 'failed', tied={tied})"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        step = psutil.Process(int(process.stderr.readline()))
        process.send_signal(number)
        process.wait(60)
        try:
            assert still_running([step], 60) == []
        finally:
            with suppress(psutil.NoSuchProcess):
                step.kill()


def test_what_runs_beside_each_other_fails_where_one_of_it_does(tmp_path: Path) -> None:
    def writes(number: int, code: int) -> list[str]:
        path = str(tmp_path / str(number))
        return [sys.executable, "-c", f"import sys; open({path!r}, 'w').close(); sys.exit({code})"]

    with setup.beside([writes(0, 0), writes(1, 0)], "failed"):
        pass
    with (
        pytest.raises(setup.SetupError, match="it went wrong"),
        setup.beside([writes(2, 1), writes(3, 0)], "it went wrong"),
    ):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("tied", [True, False])
def test_what_runs_beside_a_block_that_fails_ends_with_it(*, tied: bool) -> None:
    """Set-up says at once that there are no jars, and does not compile for a minute before."""
    # Its input ends at once where it is not tied, and it would go on for ten minutes.
    work = [sys.executable, "-c", "import sys, time; sys.stdin.read(); time.sleep(float(sys.argv[1]))"]
    command = [*work, "0" if tied else "600"]
    with pytest.raises(setup.SetupError, match="no jars"), setup.beside([command], "failed", tied=tied):
        raise setup.SetupError("no jars")


def test_kernels_are_compiled_anew_where_any_source_of_theirs_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[list[str]]] = []
    monkeypatch.setattr(setup, "ROOT", tmp_path)

    def beside(commands: list[list[str]], *_: object, **__: object) -> AbstractContextManager[None]:
        ran.append(commands)
        return nullcontext()

    monkeypatch.setattr(setup, "beside", beside)
    windows, nested, stamp = tmp_path / setup.KERNELS[-1], tmp_path / setup.KERNELS[-1] / "memory", tmp_path / "stamp"
    for folder in (windows, nested, tmp_path / Path(setup.WARM).parent):
        (folder / "__pycache__").mkdir(parents=True)
        (folder / "kernel.py").write_text("first")
        (folder / "__pycache__" / "kernel.nbi").write_text("compiled")
    (tmp_path / setup.WARM).write_text("first")
    for _ in range(2):
        with setup.compiled_kernels(Path("python"), stamp):
            pass
    assert ran == [[["python", "-m", "crossline.runtime.workers.kernel_warmup", "--tied", half] for half in HALVES]]
    for number, path in enumerate((windows / "kernel.py", nested / "kernel.py", tmp_path / setup.WARM), start=2):
        (nested / "__pycache__" / "kernel.nbi").write_text("compiled")
        path.write_text("second")
        with setup.compiled_kernels(Path("python"), stamp):
            pass
        assert len(ran) == number
        assert not (nested / "__pycache__" / "kernel.nbi").exists()
