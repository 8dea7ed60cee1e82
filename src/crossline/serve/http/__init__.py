"""HTTP of the API: problems, and the routes of reads and writes."""
