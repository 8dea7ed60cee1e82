"""Forms of rules, for users who do not write YAML: the fields of a rule's text, and edits of the text."""
