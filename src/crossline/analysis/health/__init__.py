"""The health of rules, from counts: precision, delayed labels, drift, silence, and checks of predictions."""
