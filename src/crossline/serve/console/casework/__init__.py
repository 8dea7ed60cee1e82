"""What the pages of cases have in common: filters in an address, cases as rows, acts as forms, who else looks."""
