"""What everything that asks over a network shares: one deadline for a whole answer."""
