"""Erasure of persons by the values of their key fields: from tables, files, state, stores and receipts."""
