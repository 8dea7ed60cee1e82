"""Alerts and decisions to an address on the web, signed, in order for each entity."""
