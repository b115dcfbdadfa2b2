"""Classes of tensors that hold others, and carry out operators on them by __torch_dispatch__."""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

aten = torch.ops.aten


class Quantized(torch.Tensor):
    """A weight in int8 with a scale for each row, made whole again by whatever uses it."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype, device=whole.device)

    def __init__(self, whole, scale):
        self.whole = whole
        self.scale = scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Quantized(inner["whole"], inner["scale"])

    def dequantized(self):
        return self.whole.to(self.scale.dtype) * self.scale

    def __repr__(self):
        return "Quantized"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is aten.detach.default:
            return cls(args[0].whole.detach(), args[0].scale.detach())
        if func is aten.t.default:
            return cls(args[0].whole.t(), args[0].scale.t())
        args, kwargs = pytree.tree_map_only(Quantized, lambda one: one.dequantized(), (args, kwargs))
        return func(*args, **kwargs)


class Pair(torch.Tensor):
    """Two tensors; whatever is done is done to both."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), dtype=a.dtype, device=a.device, requires_grad=a.requires_grad
        )

    def __init__(self, a, b):
        self.a = a
        self.b = b

    def __repr__(self):
        return "Pair"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        outs = [
            func(
                *pytree.tree_map_only(Pair, lambda one, name=name: getattr(one, name), args),
                **pytree.tree_map_only(Pair, lambda one, name=name: getattr(one, name), kwargs),
            )
            for name in ("a", "b")
        ]
        flat, spec = pytree.tree_flatten(outs[0])
        both = [
            cls(a, b) if isinstance(a, torch.Tensor) else a
            for a, b in zip(flat, pytree.tree_leaves(outs[1]), strict=True)
        ]
        return return_and_correct_aliasing(func, args, kwargs, pytree.tree_unflatten(both, spec))


class Scaled(torch.Tensor):
    """`by` times a tensor. Products are folded into the number."""

    @staticmethod
    def __new__(cls, inner, by):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    def __init__(self, inner, by):
        self.inner, self.by = inner, by

    def __repr__(self):
        return "Scaled"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is aten.mul.Tensor and isinstance(args[1], (int, float)):
            return Scaled(args[0].inner, args[0].by * args[1])
        plain = [one.inner * one.by if isinstance(one, Scaled) else one for one in args]
        return func(*plain, **(kwargs or {}))


class Noted(torch.Tensor):
    """Notes the operators, and what it was given that is no wrapper."""

    seen = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return "Noted"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func, [one for one in args if isinstance(one, (int, float, list))]))
        out = func(*pytree.tree_map_only(Noted, lambda one: one.inner, args), **(kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Noted, out)


class Chosen(torch.Tensor):
    """Does something else where the tensor beside it is the one that the class knows."""

    known = None

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return "Chosen"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        by = 2 if any(one is cls.known for one in args) else 1
        return func(*[one.inner if isinstance(one, Chosen) else one for one in args], **(kwargs or {})) * by
