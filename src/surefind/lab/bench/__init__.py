"""The benchmark: runs every configuration of a plan on an exam and reports which is best, and how certain that is."""
