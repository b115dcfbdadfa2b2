"""autograd.Functions whose backward reads what changes between the forward and the backward."""

import torch
from program_cases import case, leaf

scale = 2
factor = torch.tensor(2.0)
scales = [2.0]


class Holder:
    scale = 2


class Kind:
    scale = 2


holder = Holder()


def by_helper(gradient):
    return gradient * scale


def closed_over():
    factor_of = 2

    def read(gradient):
        return gradient * factor_of

    def change(value):
        nonlocal factor_of
        factor_of = value

    return read, change


read_cell, change_cell = closed_over()


def set_scale(value):
    global scale
    scale = value


def set_factor(value):
    global factor
    factor = torch.tensor(float(value))


def put_scale(value):
    scales[0] = value


def hold_scale(value):
    holder.scale = value


def set_scale_of_kind(value):
    Kind.scale = value


READS = {
    "number": (lambda gradient: gradient * scale, set_scale),
    "number_by_a_helper": (by_helper, set_scale),
    "number_by_a_comprehension": (lambda gradient: sum([gradient * scale for _ in range(2)]), set_scale),
    "tensor": (lambda gradient: gradient * factor, set_factor),
    "tensor_that_is_filled": (lambda gradient: gradient * factor, lambda value: factor.fill_(value)),
    "item": (lambda gradient: gradient * scales[0], put_scale),
    "attribute": (lambda gradient: gradient * holder.scale, hold_scale),
    "attribute_of_a_class": (lambda gradient: gradient * Kind.scale, set_scale_of_kind),
    "cell": (read_cell, change_cell),
}


def reading(read, change):
    class Reading(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return read(gradient)

    def program(compile):
        f = compile(lambda x: Reading.apply(x).sin())
        for value in (2, 2, 3, 5, 4):
            change(value)
            x = leaf(3)
            y = f(x)
            change(value + value % 3)
            y.sum().backward()
            yield y, x.grad

    return program


for name, (read, change) in READS.items():
    program = reading(read, change)
    program.__name__ = f"backward_reads_a_changed_{name}"
    case(program)
