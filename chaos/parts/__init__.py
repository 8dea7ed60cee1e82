"""The parts that faults hit: services behind their proxies, and the pipeline."""
