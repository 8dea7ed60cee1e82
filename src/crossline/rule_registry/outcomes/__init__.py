"""What becomes of what people ask for: publications, approvals, refusals."""
