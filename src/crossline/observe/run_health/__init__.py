"""How a pipeline runs, as another process sees it: its metrics and its minutes, each figure against its limit."""
