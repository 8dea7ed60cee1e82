"""The webhook sink: posts signed alerts and decisions, in order for each entity."""
