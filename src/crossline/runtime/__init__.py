"""The run of a batch: its stages, its runners (with Spark and without), and its checkpoint."""

from crossline.runtime.machine.compile_lock import compile_once

compile_once()  # whatever of the runtime a process loads: it may come to compile kernels, and so may others beside it
