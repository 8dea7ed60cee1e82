"""The chaos drill: ``make chaos``, or ``python -m chaos [--seed N] [--faults 100] [--minutes M] [--kinds a,b]``.

Runs a real pipeline with a broker, Redis, PostgreSQL and a webhook under load, and injects faults one by one and
together. The exit code is 0 if nothing was lost, nothing came twice and the pipeline recovered from every lag, else 1.
See docs/chaos.md.
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
from chaos.parts.api import ASKS_PER_S
from chaos.parts.services import serving
from chaos.pipeline import Settings
from chaos.results.report import api_text, findings_table, write
from crossline.runtime.machine.temporary_folders import own_folder_for

ROOT = Path(__file__).parent.parent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="seed of the faults and the records; by default random, and printed")
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--minutes", type=float, help="begin no fault after this time")
    parser.add_argument("--rate", default="peak", help="records per second; peak: measured first, without faults")
    parser.add_argument("--share", type=float, default=0.6, help="the part of the peak that is sent")
    parser.add_argument(
        "--store", choices=("yes", "no"), help="put the checkpoint on an object store; by default the seed decides"
    )
    parser.add_argument(
        "--format", choices=("avro", "json"), help="format of the records; by default json with the API"
    )
    parser.add_argument(
        "--api", choices=("yes", "no"), help="run the decision API; by default if the checkpoint is a folder"
    )
    parser.add_argument("--asks", type=float, default=ASKS_PER_S, help="requests per second to the API")
    parser.add_argument("--reevaluate", action="store_true", help="rules judge again after late records")
    parser.add_argument("--steady", type=float, default=0.0, help="seconds at the rate before the first fault")
    parser.add_argument("--kinds", help=f"kinds of faults, of {', '.join(KINDS)}")
    parser.add_argument(
        "--master", default="local[2]", help="Spark master; local-cluster[2,1,1024] has executors to kill"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "chaos", help="folder of the report")
    parser.add_argument("--keep", type=Path, help="folder that keeps all files of the pipeline")
    return parser


def main() -> int:
    """Run a drill."""
    parser = _parser()
    options = parser.parse_args()
    if options.api == "yes" and (options.store == "yes" or options.format == "avro"):
        parser.error("the API follows a checkpoint in a folder, and puts JSON into topics: --store no, --format json")
    seed = options.seed if options.seed is not None else secrets.randbelow(1_000_000)
    store = options.store == "yes" if options.store else seed % 2 == 1 and options.api != "yes"
    with_api = options.api != "no" and not store and options.format != "avro"
    form = options.format or ("json" if with_api else "avro")
    usual = possible(
        executors=options.master.startswith("local-cluster"), store=store, registry=form == "avro", api=with_api
    )
    kinds = options.kinds.split(",") if options.kinds else usual
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no fault is named {', '.join(unknown)}; known: {', '.join(KINDS)}")
    if impossible := [kind for kind in kinds if kind not in usual]:
        parser.error(f"nothing is there to strike for {', '.join(impossible)}; see --store, --format, --api, --master")
    where = "on an object store" if store else "in a folder"
    beside = ", with the API" if with_api else ""
    say(f"chaos drill: seed {seed}, {options.faults} faults, rate {options.rate}, checkpoint {where}{beside}")
    at_peak = options.rate == "peak"
    plan = Plan(
        seed,
        FIRST_PER_S if at_peak else float(options.rate),
        drawn(seed, options.faults, kinds),
        options.minutes,
        settings=Settings(options.master, reevaluates=options.reevaluate),
        of_peak=options.share if at_peak else None,
        asks_per_s=options.asks,
        steady_s=options.steady,
    )
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(own_folder_for("chaos"))
        if options.keep is not None:
            stack.callback(shutil.copytree, root, options.keep, dirs_exist_ok=True)
        outcome = drill(
            plan,
            root,
            stack.enter_context(serving(with_registry=form == "avro", with_store=store, with_api=with_api)),
        )
    report = write(outcome, options.out)
    print(findings_table(outcome))
    if outcome.api is not None:
        print(api_text(outcome))
    print(*outcome.faults_of_drill, sep="\n")
    print(f"{'good' if outcome.good else 'NOT GOOD'}: seed {seed}, report in {report}")
    return 0 if outcome.good else 1


if __name__ == "__main__":
    sys.exit(main())
