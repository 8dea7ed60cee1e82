"""The runner without Spark or Java: the same hops, in processes of this machine."""
