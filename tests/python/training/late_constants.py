"""Numbers that a test's module sets, and nothing else."""

EPS = 0.25
NAMES = {"changed": 1}
