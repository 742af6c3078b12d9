"""A served model measured on a benchmark's checkout. Nothing of it is written into a corpus."""
