"""The parts that are struck: services behind their proxies, and the pipeline."""
