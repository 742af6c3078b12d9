"""One script per claim; each prints a table and writes JSON. No timed tests."""
