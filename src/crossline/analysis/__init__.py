"""What can be said of rules without records: what they mean, what they keep, and what cannot be meant."""
