"""What random programs are made of: input tensors, and the choice of values, dimensions and numbers for a line."""

import random
from collections.abc import Callable

import torch

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16", "float16")
INTEGERS = ("int64", "int64", "int32", "int16", "int8", "uint8")
LARGEST = 4096  # elements of any value
# No number so large that a sum of squares overflows in f32: in which order it does so is nobody's promise.
SPECIAL = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1e-40, 1e15)


def make(shape: tuple[int, ...], dtype: str, seed: int, layout: str) -> torch.Tensor:
    """An input: eighths in [-4, 4], with special values if the seed says so; small integers; bools. It lies on the
    default device."""
    generator = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    base = {"transposed": shape[::-1], "strided": tuple(2 * n for n in shape)}.get(layout, shape)
    eighths = torch.randint(-32, 33, base, generator=generator, device="cpu")
    if kind == torch.bool:
        value = eighths > 0
    elif kind.is_floating_point:
        value = (eighths / 8).to(kind)
        if seed % 4 == 0 and value.numel():
            count = (1 + value.numel() // 8,)
            for k in torch.randint(0, value.numel(), count, generator=generator, device="cpu").tolist():
                value.view(-1)[k] = SPECIAL[(k + seed) % len(SPECIAL)]
    else:
        value = (eighths.abs() if dtype == "uint8" else eighths).to(kind)
    value = value.to(torch.get_default_device())
    if layout == "transposed":
        return value.permute(tuple(range(len(shape)))[::-1])
    if layout == "strided":
        return value[tuple(slice(None, None, 2) for _ in shape)]
    return value


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements may lie at one place (an expanded tensor, an unfolded one)."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def overlap_partly(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether what is read may have been written before: then the result depends on the order of eager's loop."""

    def places(tensor: torch.Tensor) -> set[int]:
        count = tensor.untyped_storage().nbytes() // tensor.element_size()
        return set(
            torch.arange(count)
            .as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            .flatten()
            .tolist()
        )

    if one.untyped_storage()._cdata != other.untyped_storage()._cdata or not one.numel() or not other.numel():
        return False
    same = (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset())
    return not same and bool(places(one) & places(other))


class Choices:
    """Chooses operands for a line out of the values that the lines before it have made."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.values: dict[str, torch.Tensor] = {"torch": torch, "F": torch.nn.functional}  # type: ignore[dict-item]
        self.inexact: set[int] = set()  # storages

    def names(self, where: Callable[[torch.Tensor], bool] = lambda _: True) -> list[str]:
        found = [k for k, v in self.values.items() if isinstance(v, torch.Tensor) and where(v)]
        return found + found[-4:]  # late values more often

    def pick(self, where: Callable[[torch.Tensor], bool] = lambda _: True) -> str:
        found = self.names(where)
        if not found:
            raise LookupError
        return self.random.choice(found)

    def is_exact(self, tensor: torch.Tensor) -> bool:
        return not tensor.is_floating_point() or tensor.untyped_storage()._cdata not in self.inexact

    def floating(self) -> str:
        return self.pick(lambda v: v.is_floating_point())

    def exact(self) -> str:
        return self.pick(lambda v: v.is_floating_point() and self.is_exact(v))

    def integral(self) -> str:
        return self.pick(lambda v: not v.is_floating_point() and v.dtype != torch.bool)

    def boolean(self) -> str:
        return self.pick(lambda v: v.dtype == torch.bool)

    def numeric(self) -> str:
        return self.pick(lambda v: v.dtype != torch.bool)

    def like(self, name: str, dtype: bool = True) -> str:
        """A value that broadcasts with `name`."""
        mine = self.values[name]

        def fits(other: torch.Tensor) -> bool:
            pairs = zip(mine.shape[::-1], other.shape[::-1], strict=False)
            return all(a == b or 1 in (a, b) for a, b in pairs) and (not dtype or other.dtype == mine.dtype)

        return self.pick(fits)

    def dim(self, name: str) -> int:
        rank = self.values[name].dim()
        if rank == 0:
            raise LookupError
        return self.random.randrange(-rank, rank)

    def dims(self, name: str) -> tuple[int, ...]:
        rank = self.values[name].dim()
        if rank == 0:
            raise LookupError
        return tuple(sorted(self.random.sample(range(rank), self.random.randint(1, rank))))

    def number(self) -> str:
        return self.random.choice(["2", "0.5", "-1", "3", "1.25", "-0.75", "0", "1", "7"])

    def shape(self) -> tuple[int, ...]:
        sizes = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33]
        rank = self.random.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        if self.random.random() < 0.06:
            sizes = [0, *sizes[:4]]
        while True:
            shape = tuple(self.random.choice(sizes) for _ in range(rank))
            if torch.Size(shape).numel() <= LARGEST // 2:
                return shape
