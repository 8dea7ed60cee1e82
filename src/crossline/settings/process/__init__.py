"""How the processes of a pipeline run, and what they answer."""
