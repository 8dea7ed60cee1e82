"""How rules do, from counts: precision, labels still to come, drift, silence, and predictions that are kept or not."""
