"""What the OpInfo sweep does not compare, and why."""

# Name of the OpInfo entry -> reason.
SKIPPED: dict[str, str] = {}

# Results are uninitialised memory.
NO_VALUES = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}

# Strides of the results are not promised by eager either.
ANY_STRIDES: set[str] = set()
