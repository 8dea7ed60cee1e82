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

from chaos.calibration import FIRST_PER_S
from chaos.drill import Plan, drill, say
from chaos.faults import KINDS, drawn, possible
from chaos.parts.services import serving
from chaos.pipeline import Settings
from chaos.told.report import findings_table, write
from crossline.engine.machine.temp import own_folder_for

ROOT = Path(__file__).parent.parent


def main() -> int:
    """Run a drill."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of the faults and the records; by default, drawn and printed")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="begin no fault after so many")
    parser.add_argument("--rate", default="peak", help="records a second; peak: measured first, all at work")
    parser.add_argument("--share", type=float, default=0.6, help="of the peak that is sent")
    parser.add_argument(
        "--store", choices=("yes", "no"), help="the checkpoint on an object store; by default by the seed"
    )
    parser.add_argument("--format", choices=("avro", "json"), default="avro", help="of the records")
    parser.add_argument("--kinds", help=f"out of {', '.join(KINDS)}")
    parser.add_argument("--master", default="local[2]", help="with local-cluster[2,1,1024] there are executors to kill")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "chaos", help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder for all that the pipeline left, to look into")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    store = options.store == "yes" if options.store else seed % 2 == 1
    usual = possible(
        executors=options.master.startswith("local-cluster"), store=store, registry=options.format == "avro"
    )
    kinds = options.kinds.split(",") if options.kinds else usual
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no fault is named {', '.join(unknown)}; known: {', '.join(KINDS)}")
    if impossible := [kind for kind in kinds if kind not in usual]:
        parser.error(f"nothing is there to strike for {', '.join(impossible)}; see --store, --format and --master")
    where = "on an object store" if store else "in a folder"
    say(f"chaos drill: seed {seed}, {options.faults} faults, rate {options.rate}, checkpoint {where}")
    at_peak = options.rate == "peak"
    plan = Plan(
        seed,
        FIRST_PER_S if at_peak else float(options.rate),
        drawn(seed, options.faults, kinds),
        options.minutes,
        settings=Settings(options.master),
        of_peak=options.share if at_peak else None,
    )
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(own_folder_for("chaos"))
        if options.keep is not None:
            stack.callback(shutil.copytree, root, options.keep, dirs_exist_ok=True)
        outcome = drill(
            plan, root, stack.enter_context(serving(with_registry=options.format == "avro", with_store=store))
        )
    report = write(outcome, options.out)
    print(findings_table(outcome))
    print(*outcome.faults_of_drill, sep="\n")
    print(f"{'good' if outcome.good else 'NOT GOOD'}: seed {seed}, report in {report}")
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
