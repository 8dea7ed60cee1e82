"""Drafts of rules, their proofs, and who asked whom to approve of them."""
