"""Units of work: tasks, stopwatches and totals."""
