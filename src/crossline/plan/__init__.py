"""From rules to what is kept, routed and judged."""
