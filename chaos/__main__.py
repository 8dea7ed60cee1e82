"""The chaos drill: ``make chaos``, or ``python -m chaos [--seed N] [--faults 100] [--minutes M] [--kinds a,b]``.

A real pipeline with a broker, Redis, PostgreSQL and a webhook at load, and faults in turn and together. Ends with 0
where nothing was lost, nothing came twice and every lag was got over, else with 1. See docs/chaos.md.
"""

from __future__ import annotations

import argparse
import contextlib
import secrets
import shutil
import sys
from pathlib import Path

from chaos.drill import Plan, drill, say
from chaos.faults import KINDS, drawn
from chaos.pipeline import Settings
from chaos.report import findings_table, write
from chaos.services import serving
from crossline.engine.machine.temp import own_folder_for

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Run a drill."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the faults and the records; by default, drawn and printed")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="begin no fault after so many")
    parser.add_argument("--rate", type=float, default=1_000, help="records a second")
    parser.add_argument("--kinds", help=f"out of {', '.join(KINDS)}")
    parser.add_argument("--master", default="local[2]", help="with local-cluster[2,1,1024] there are executors to kill")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "chaos", help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder for all that the pipeline left, to look into")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    has_executors = options.master.startswith("local-cluster")
    usual = [kind for kind in KINDS if kind != "executor" or has_executors]
    kinds = options.kinds.split(",") if options.kinds else usual
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no fault is named {', '.join(unknown)}; known: {', '.join(KINDS)}")
    say(f"chaos drill: seed {seed}, {options.faults} faults, {options.rate:g} records/s")
    plan = Plan(
        seed, options.rate, drawn(seed, options.faults, kinds), options.minutes, settings=Settings(options.master)
    )
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(own_folder_for("chaos"))
        if options.keep is not None:
            stack.callback(shutil.copytree, root, options.keep, dirs_exist_ok=True)
        outcome = drill(plan, root, stack.enter_context(serving()))
    report = write(outcome, options.out)
    print(findings_table(outcome))
    print(*outcome.faults_of_drill, sep="\n")
    print(f"{'good' if outcome.good else 'NOT GOOD'}: seed {seed}, report in {report}")
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
