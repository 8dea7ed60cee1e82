"""Suppressions: alerts that open no case, until an end that is set, and the fraud that this hid."""
