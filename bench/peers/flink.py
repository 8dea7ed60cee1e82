"""Rolling figures by Flink SQL: ``OVER`` windows in event time, as a team with Flink would write them.

``flink_sql`` has the statements and a program that runs them in one process: two slots, state on the heap, checkpoints
every 10 s, objects reused. Maven fetches Flink and builds the program, once, in the user's cache; nothing of it is part
of the product or of its tests. Mini-batches are not used: Flink has none for ``OVER``.

In ``streaming`` mode, a row waits for the watermark, which is 2 s behind the newest record, and a row behind it is
dropped. In ``batch`` mode, Flink sorts the file first.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import Template

import orjson

from bench.report import say
from crossline.runtime.machine.java import find_java

HERE = Path(__file__).parent / "flink_sql"
# In batch mode the windows are over the integer: Flink 2.3 compiles no such window over a timestamp there.
ENDINGS = {"streaming": "", "batch": "_batch"}
SCRIPTS = {"R1": ("r1",), "R5": ("r1", "r5")}
HEAP = "6g"
OPENED = ("util", "lang", "time", "nio")
SETTINGS = {
    "execution.target": "local",
    "parallelism.default": "2",
    "pipeline.object-reuse": "true",
    "state.backend.type": "hashmap",
    "execution.checkpointing.interval": "10s",
    "taskmanager.memory.managed.size": "1g",  # the sorting of the batch mode
    "restart-strategy.type": "none",
    "table.optimizer.source.predicate-pushdown-enabled": "false",  # so that all statements share one reading
}


def cache_folder() -> Path:
    """Where peers are built: in the user's cache, outside of the checkout."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "crossline-bench"


def built_in(folder: Path, name: str, sources: Path, command: Sequence[str]) -> Path:
    """A copy of ``sources`` in which ``command`` ran, made again when a source changes. Exits where it fails."""
    files = sorted(path for path in sources.rglob("*") if path.is_file() and "target" not in path.parts)
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]
    made = folder / f"{name}-{digest}"
    if (made / "_done").exists():
        return made
    if shutil.which(command[0]) is None:
        raise SystemExit(
            f"{command[0]} is not on the PATH and has to build the peer {name}; install it or leave the peer out"
        )
    say(f"fetching and building {name} in {made}, once")
    shutil.rmtree(made, ignore_errors=True)
    shutil.copytree(sources, made, ignore=shutil.ignore_patterns("target"))
    done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {made}:\n{(done.stdout + done.stderr)[-3000:]}")
    (made / "_done").touch()
    return made


def built() -> Path:
    """Flink and the program that runs the statements."""
    maven = ["mvn", "-q", "-B", "package", "dependency:copy-dependencies"]
    maven += ["-DoutputDirectory=target/lib", "-DincludeScope=runtime"]
    return built_in(cache_folder(), "flink_sql", HERE, maven)


def version() -> str:
    """Of Flink, as the build has it."""
    found = re.search(r"<flink.version>(.*?)</flink.version>", (HERE / "pom.xml").read_text(encoding="utf-8"))
    return found[1] if found else "unknown"


def command(rules: str, file: Path, out: Path, *, mode: str, times: int = 1) -> list[str]:
    """The command that reads ``file`` and writes the answers into the folder ``out / "answers"``, ``times`` times."""
    made = built()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    given = {"input": file.absolute().as_uri(), "output": (out / "answers").absolute().as_uri()}
    scripts = []
    for name in ("tables", *(f"{each}{ENDINGS[mode]}" for each in SCRIPTS[rules])):
        script = out / f"{name}.sql"
        script.write_text(Template((HERE / f"{name}.sql").read_text(encoding="utf-8")).substitute(given))
        scripts.append(str(script))
    settings = {**SETTINGS, "execution.runtime-mode": mode}
    settings["execution.checkpointing.dir"] = (out / "checkpoints").absolute().as_uri()
    java = [str(find_java().binary), f"-Xmx{HEAP}"]
    java += [f"--add-opens=java.base/java.{each}=ALL-UNNAMED" for each in OPENED]
    java += ["-cp", f"{made}/target/classes:{made}/target/lib/*", "bench.RunSql", str(times)]
    return [*java, *(f"{name}={value}" for name, value in settings.items()), "--", *scripts]


def answers(out: Path) -> Iterator[tuple[str, str, float]]:
    """Rule, record id and figure of each answer."""
    for path in (out / "answers").rglob("*"):
        if path.is_file() and not path.name.startswith((".", "_")):
            for line in path.read_bytes().splitlines():
                found = orjson.loads(line)
                yield found["rule_id"], found["transaction_id"], found["figure"]
