"""What analysts see of cases: filtered, sorted, counted, searched, page by page."""
