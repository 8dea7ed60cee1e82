"""What a batch goes through, what runs it, with Spark and without, and what it keeps."""

from crossline.runtime.machine.compile_lock import compile_once

compile_once()  # whatever of the runtime a process loads: it may come to compile kernels, and so may others beside it
