"""The pages, a folder each."""
