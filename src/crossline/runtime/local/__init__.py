"""The runner without Spark or Java: the same stages, in processes of this machine."""
