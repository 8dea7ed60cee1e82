"""An API away from its pipeline: a copy of what the pipeline keeps on a store, kept like it."""
