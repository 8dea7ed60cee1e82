"""Commands in forks of a process that has loaded what they need: one that people wait for begins at once."""
