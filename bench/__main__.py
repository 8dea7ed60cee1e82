"""All measurements, or those named, one after the other: ``python -m bench [NAME ...] [--quick]``."""

from __future__ import annotations

import argparse
import subprocess
import sys

from crossline.runtime.java.child_processes import end_with_parent

# In this order; each is a program of its own: python -m bench.NAME --help.
SMALL = (
    *("kernel", "panes", "patterns", "retraction", "decode", "costs"),
    *("memory", "floor", "checkpoint", "sizing", "startup"),
)
LARGE = (
    *("throughput", "backtest", "keys", "recovery", "latency", "decisions", "isolation", "sinks", "equality"),
    *("postgres", "soak"),
)
PROGRAMS = (*SMALL, *LARGE)
WITHOUT_QUICK = frozenset({"kernel", "panes", "patterns", "retraction", "decode", "equality"})


def main() -> int:
    """Run the programs; 1 where one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs to run; the same as --only")
    parser.add_argument("--only", default=",".join(PROGRAMS), help=f"programs to run, of {', '.join(PROGRAMS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes, where a program has them")
    options = parser.parse_args()
    names = options.names or options.only.split(",")
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        parser.error(f"no measurement is named {', '.join(unknown)}; known: {', '.join(PROGRAMS)}")
    failed = []
    for number, name in enumerate(names, 1):
        print(f"bench {number}/{len(names)}: {name}", file=sys.stderr, flush=True)
        quick = ["--quick"] if options.quick and name not in WITHOUT_QUICK else []
        command = [sys.executable, "-m", f"bench.{name}", *quick]
        if subprocess.run(command, check=False, preexec_fn=end_with_parent).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
