"""The Spark engine: the only place that imports pyspark."""

from crossline.engine.machine.compiling import take_turns

take_turns()  # whatever of the engine a process loads: it may come to compile kernels, and so may others beside it
