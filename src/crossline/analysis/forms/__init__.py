"""A rule's text as a form, for who does not write YAML: what can be set, and how a change comes into the text."""
