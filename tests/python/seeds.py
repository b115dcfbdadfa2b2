"""The seed that every test and program begins with."""

import torch

HAS_GPU = torch.cuda.is_available()


def seed(number: int = 0) -> None:
    """torch.manual_seed, which without a GPU notes at every call where it was called, for GPUs that may come."""
    if HAS_GPU:
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)
