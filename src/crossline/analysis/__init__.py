"""Static analysis of rules: descriptions, forms, retention, lint, and measures of detection quality."""
