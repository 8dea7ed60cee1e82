"""Makes .venv with the locked packages, the ``crossline`` command, a Java where the machine has none, and the jars.

Needs nothing but Python's standard library. Does again only what changed: `.venv/setup-done` says what was done.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements-bootstrap.lock", "requirements.lock")
JAVA_LOCK = "requirements-java.lock"
SITE = "site"  # what main is reported so that docs/ can be built
SITE_LOCK = "requirements-docs.lock"
DEMO = "demo"  # what main is reported before the demo, which compiles what it needs, and no more
BROWSER = "browser"  # what main is reported so that tests of the console have one
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
GROUPS = ("local-fs", "spark-kafka")
KERNELS = tuple(f"src/crossline/{room}" for room in ("ingest/avro", "ingest/decode", "state"))
# What kernels are made of, besides.
SOURCES = tuple(f"src/crossline/{room}" for room in ("basics/kernels", "programs", "aggregates"))
WARM = "src/crossline/runtime/workers/kernel_warmup.py"  # which of them it compiles
# uv does not read pip's configuration; these settings of the machine are passed to it.
UV_OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}


class SetupError(Exception):
    """A step failed; the text has the step and the action."""


def main(arguments: list[str]) -> int:
    """Set up, then fetch what ``arguments`` name: groups of jars besides those always needed, and the names above."""
    venv = ROOT / ".venv"
    python = venv / "bin" / "python"
    stamp = venv / "setup-done"
    try:
        wanted = digest()
        if not stamp.is_file() or stamp.read_text() != wanted or not is_current(python):
            install(venv, python)
            stamp.write_text(wanted)
        ensure_java(python, arguments)
        if SITE in arguments:
            ensure_site(python, venv / "site-done", wanted)
        compile_bytecode(python, venv, wanted)
        if DEMO in arguments:
            fetch(python, arguments)
            begin_kernels(venv / "kernels-done")
        else:
            # The processors compile while the network brings the rest.
            with compiled_kernels(python, venv / "kernels-done"):
                fetch(python, arguments)
            put_classes_by(python)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def digest() -> str:
    """The inputs of the environment: the locks, pyproject.toml, this Python, and the location."""
    made_from = hashlib.sha256(f"{ROOT}\n{sys.version}\n".encode())
    for name in (*LOCKS, JAVA_LOCK, "pyproject.toml"):
        made_from.update((ROOT / name).read_bytes())
    return made_from.hexdigest()


def is_current(python: Path) -> bool:
    """Whether there is an environment, and its Python starts and is this one (which may have gone or changed since)."""
    if not python.is_file():
        return False
    ask = [str(python), "-c", "import sys; print(sys.version)"]
    said: str = subprocess.run(ask, check=False, capture_output=True, text=True).stdout
    return said.strip() == sys.version


def install(venv: Path, python: Path) -> None:
    """Make the environment and install the locked packages and the project itself."""
    step(f"1/4 environment in {venv} with Python {sys.version.split()[0]}")
    run(
        [sys.executable, "-m", "venv", *([] if is_current(python) else ["--clear"]), str(venv)],
        "no environment could be made",
    )
    registry = "is the registry within reach? pip's configuration of this machine holds: `pip config list`"
    step("2/4 installer")
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]
    run([*pip, "-r", str(ROOT / LOCKS[0])], f"the installer could not be installed; {registry}")
    step("3/4 packages (about 500 MB; a minute or two the first time)")
    environment = uv_environment(pip_settings(python), os.environ)
    # No isolation: the build dependencies of PySpark and the project come from the locks too, instead of unpinned.
    locks = [str(ROOT / lock) for lock in LOCKS]
    uv = [str(venv / "bin" / "uv"), "pip"]
    options = ["--python", str(python), "--no-build-isolation"]
    run(
        [*uv, "sync", *options, "--require-hashes", *locks],
        f"the packages could not be installed; {registry}",
        environment,
    )
    step("4/4 crossline itself")
    run(
        [*uv, "install", *options, "--no-deps", "--editable", str(ROOT)],
        "crossline could not be installed",
        environment,
    )


def compile_bytecode(python: Path, venv: Path, wanted: str) -> None:
    """Have Python compile what it imports (see ``bytecode.py``): packages once for ``wanted``, sources that changed."""
    stamp = venv / "bytecode-done"
    command = [str(python), str(ROOT / "tools" / "bytecode.py"), "--sources", str(ROOT / "src")]
    is_done = stamp.is_file() and stamp.read_text() == wanted
    if not is_done:
        step("bytecode (some ten seconds the first time)")
        folders = sorted(venv.glob("lib/python3*/site-packages"))
        command += [part for folder in folders for part in ("--packages", str(folder))]
    try:
        run(command, "some bytecode could not be compiled (see above): commands start slower")
    except SetupError as error:  # a source in the midst of an edit, a folder that may not be written: all works without
        step(str(error))
    else:
        stamp.write_text(wanted)


def begin_kernels(stamp: Path) -> str | None:
    """Throw away what was compiled of other sources; what says which the sources are, None where all is compiled.

    It would not be taken (see basics/kernels/files.py), but it would heap up. What is compiled of these is kept.
    """
    made_from = hashlib.sha256()
    sources = [source for folder in (*KERNELS, *SOURCES) for source in sorted((ROOT / folder).rglob("*.py"))]
    for source in [*sources, ROOT / WARM]:
        made_from.update(source.read_bytes())
    wanted = made_from.hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return None
    begun = stamp.with_name("kernels-begun")
    if not begun.is_file() or begun.read_text() != wanted:
        for compiled in (file for folder in KERNELS for file in (ROOT / folder).rglob("__pycache__/*.nb?*")):
            compiled.unlink(missing_ok=True)
        begun.write_text(wanted)
    return wanted


@contextmanager
def compiled_kernels(python: Path, stamp: Path) -> Iterator[None]:
    """Have the kernels compiled into the cache of the user, where sources changed: no first batch waits for it then.

    They are at the end of the block, and compiled beside it. What was compiled when it was interrupted, or by the demo,
    is kept: this goes on with the rest.
    """
    wanted = begin_kernels(stamp)
    if wanted is None:
        yield
        return
    # Two processes: one would use one processor for a minute and a half. Locks prevent that both compile a
    # kernel.
    warm = [str(python), "-m", "crossline.runtime.workers.kernel_warmup", "--tied"]
    with beside([[*warm, half] for half in ("panes", "rest")], "the kernels could not be compiled", tied=True):
        yield
    stamp.write_text(wanted)


def fetch(python: Path, arguments: Sequence[str]) -> None:
    """Fetch the jars that are missing, and a browser where ``arguments`` name it."""
    groups = [each for each in arguments if each not in {BROWSER, SITE, DEMO}]
    run([str(python), str(ROOT / "tools" / "fetch.py"), *GROUPS, *groups], "the jars could not be fetched")
    if BROWSER in arguments:
        ensure_browser()


def put_classes_by(python: Path) -> None:
    """Create an archive of the classes that Java loads, so that it starts faster; it is optional."""
    done = subprocess.run(
        [str(python), "-m", "crossline.runtime.pipeline.rehearsal"], check=False, stdout=subprocess.DEVNULL
    )
    if done.returncode:
        step("Java's classes could not be put by: it will start some seconds later")


def ensure_java(python: Path, groups: Sequence[str] = ()) -> None:
    """Install a Java as a wheel where the machine has none that fits, be it for Spark or for what is of ``groups``."""
    program = "from crossline.runtime.machine.java import find_java; find_java()"
    if "registry" in groups:
        program += f"; import sys; sys.path.insert(0, {str(ROOT)!r}); from dev.services.registry import JAVA"
        program += "; find_java(fitting=JAVA)"
    find = [str(python), "-c", program]
    if subprocess.run(find, check=False, capture_output=True).returncode == 0:
        return
    step("no Java that fits on this machine: installing one into .venv (about 40 MB)")
    uv = [str(python.parent / "uv"), "pip", "install", "--python", str(python), "--require-hashes"]
    failed = "no Java could be installed; install a Java 17 or 21 and set JAVA_HOME to it"
    run([*uv, "-r", str(ROOT / JAVA_LOCK)], failed, uv_environment(pip_settings(python), os.environ))
    run(find, failed)


def ensure_site(python: Path, stamp: Path, wanted: str) -> None:
    """Install what builds the site, where it is not there yet or was taken away with the environment of before."""
    lock = ROOT / SITE_LOCK
    made_from = f"{wanted} {hashlib.sha256(lock.read_bytes()).hexdigest()}"
    if stamp.is_file() and stamp.read_text() == made_from:
        return
    step("what builds the site (MkDocs: about 25 MB to download, 115 MB in .venv)")
    uv = [str(python.parent / "uv"), "pip", "install", "--python", str(python), "--require-hashes", "-r", str(lock)]
    run(uv, "MkDocs could not be installed", uv_environment(pip_settings(python), os.environ))
    stamp.write_text(made_from)


def find_browser() -> str | None:
    """The chromium or chrome of this machine; None where there is none. CROSSLINE_BROWSER names another one."""
    given = os.environ.get("CROSSLINE_BROWSER")
    return given or next((found for name in BROWSERS if (found := shutil.which(name))), None)


def ensure_browser() -> None:
    """Install a chromium where there is none and that can be done: as root on Debian. Tests say so else."""
    apt = shutil.which("apt-get")
    if find_browser() is not None or apt is None or os.geteuid() != 0:
        return
    step("no chromium or chrome on this machine: installing chromium (about 100 MB)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", "chromium"]):
        try:
            run(
                [apt, *arguments],
                "chromium could not be installed: tests of the console in a browser are skipped",
                environment,
            )
        except SetupError as error:
            step(str(error))


def pip_settings(python: Path) -> dict[str, str]:
    """The machine's settings of pip, by pip's names; the environment overrides files."""
    listed = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        check=False,
        capture_output=True,
        text=True,
    ).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        name, equals, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if equals and section in found:
            found[section][key] = str(ast.literal_eval(value))
    return {**found["global"], **found["install"], **found[":env:"]}


def uv_environment(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """``environment`` with pip's settings under uv's names, where uv is not told otherwise already."""
    result = dict(environment)
    for key, variable in UV_OF_PIP.items():
        if key in pip and variable not in environment:
            values = pip[key].split()
            if key == "find-links":
                values = [value for value in values if "://" in value or Path(value).is_dir()]
            if values:
                result[variable] = ",".join(values) if key == "find-links" else " ".join(values)
    # Like pip: the best version from all indexes. The hashes restrict the packages.
    result.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    return result


def step(text: str) -> None:
    """Print the present step."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def run(command: list[str], failed: str, environment: Mapping[str, str] | None = None, *, tied: bool = False) -> None:
    """Run ``command``, what it says to stderr; SetupError with ``failed`` where it does not end well.

    ``tied``: its standard input ends with this process, however that ends, and the command then ends by itself.
    """
    with beside([command], failed, environment, tied=tied):
        pass


@contextmanager
def beside(
    commands: Sequence[list[str]], failed: str, environment: Mapping[str, str] | None = None, *, tied: bool = False
) -> Iterator[None]:
    """Like ``run``, for several commands in parallel to each other and to the block, which ends with them."""
    given = subprocess.PIPE if tied else subprocess.DEVNULL
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, stdin=given, stdout=sys.stderr, env=environment))
            for command in commands
        ]
        try:
            yield
            codes = [process.wait() for process in started]
        except BaseException:  # stopped by a signal, or the block failed; what is tied sees that itself
            if not tied:
                for process in started:
                    process.kill()
            raise
    if any(codes):
        raise SetupError(failed)


def stop(number: int, _: object) -> None:
    """Handle SIGTERM: end, together with all steps."""
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    sys.exit(main(sys.argv[1:]))
