"""torch.compile and what belongs to it, answered by braze, for scripts that were written for torch.compile."""
