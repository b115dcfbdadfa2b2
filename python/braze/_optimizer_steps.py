"""Steps of optimizers that decide by how many there have been, in a form that does not.

torch.optim reads counts, rates and norms (Adafactor) as Python's floats, and branches on them (RAdam, ASGD)
or hands them to an operator that takes only such (Adamax). Here they are numbers within the graph, and what
they decide is selected.
"""

from typing import Any

import torch
from torch.optim import _adafactor, adamax, asgd, lr_scheduler, radam, swa_utils

from braze._load import C

Tensors = list[torch.Tensor]


def _is_plain(params: Tensors, capturable: bool, differentiable: bool) -> bool:
    return not capturable and not differentiable and not any([p.is_complex() for p in params])


def _decayed(grad: torch.Tensor, param: torch.Tensor, maximize: bool, weight_decay: float) -> torch.Tensor:
    grad = -grad if maximize else grad
    return grad.add(param, alpha=weight_decay) if weight_decay != 0 else grad


def _chosen(condition: torch.Tensor, one: Any, other: Any) -> Any:
    """`one if condition else other`, of Python's floats. torch.where takes two of those for the default dtype's."""
    nothing = torch.zeros_like(condition, dtype=torch.float64)
    return C.to_number(torch.where(condition, nothing + one, nothing + other))


def adamax_steps(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_infs: Tensors, steps: Tensors, **how: Any
) -> None:
    """torch.optim.adamax._multi_tensor_adamax."""
    if not _is_plain(params, how["capturable"], how["differentiable"]):
        return _adamax_steps(params, grads, exp_avgs, exp_infs, steps, **how)
    beta1, beta2 = how["beta1"], how["beta2"]
    for param, given, exp_avg, exp_inf, count in zip(params, grads, exp_avgs, exp_infs, steps, strict=True):
        grad = _decayed(given, param, how["maximize"], how["weight_decay"])
        count.add_(1)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_inf.copy_(torch.maximum(exp_inf * beta2, grad.abs() + how["eps"]))
        rate = how["lr"] / (1 - beta1 ** C.to_number(count))
        param.sub_(exp_avg / exp_inf * rate)


def radam_steps(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, steps: Tensors, **how: Any
) -> None:
    """torch.optim.radam._single_tensor_radam, and with many tensors."""
    if not _is_plain(params, how["capturable"], how["differentiable"]):
        return _radam_steps(params, grads, exp_avgs, exp_avg_sqs, steps, **how)
    beta1, beta2, lr, weight_decay = how["beta1"], how["beta2"], how["lr"], how["weight_decay"]
    longest = 2 / (1 - beta2) - 1
    for param, given, exp_avg, exp_avg_sq, count in zip(params, grads, exp_avgs, exp_avg_sqs, steps, strict=True):
        decays = how["decoupled_weight_decay"] and weight_decay != 0
        grad = _decayed(given, param, how["maximize"], 0 if decays else weight_decay)
        count.add_(1)
        if decays:
            param.mul_(1 - lr * weight_decay)
        exp_avg.lerp_(grad, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        step = C.to_number(count)
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        length = longest - 2 * step * (beta2**step) / correction2
        square = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        rectified = _chosen(length > 5, (correction2 * square) ** 0.5, 0.0) * (lr / correction1)
        plain = _chosen(length > 5, 0.0, 1.0) * (lr / correction1)
        param.sub_(exp_avg * (rectified / (exp_avg_sq.sqrt() + how["eps"]) + plain))


def asgd_steps(
    params: Tensors, grads: Tensors, averages: Tensors, mus: Tensors, etas: Tensors, steps: Tensors, **how: Any
) -> None:
    """torch.optim.asgd._single_tensor_asgd."""
    _asgd_each(params, grads, averages, mus, etas, steps, False, **how)


def many_asgd_steps(
    params: Tensors, grads: Tensors, averages: Tensors, mus: Tensors, etas: Tensors, steps: Tensors, **how: Any
) -> None:
    """torch.optim.asgd._multi_tensor_asgd, which writes to each parameter once."""
    _asgd_each(params, grads, averages, mus, etas, steps, True, **how)


def _asgd_each(
    params: Tensors,
    grads: Tensors,
    averages: Tensors,
    mus: Tensors,
    etas: Tensors,
    steps: Tensors,
    at_once: bool,
    **how: Any,
) -> None:
    if not _is_plain(params, how["capturable"], how["differentiable"]):
        eagers = _many_asgd_steps if at_once else _asgd_steps
        return eagers(params, grads, averages, mus, etas, steps, **how)
    lr, decay = how["lr"], how["lambd"]
    for param, given, average, mu, eta, count in zip(params, grads, averages, mus, etas, steps, strict=True):
        grad = _decayed(given, param, how["maximize"], how["weight_decay"])
        count.add_(1)
        rate = C.to_number(eta)
        if at_once:
            param.sub_((grad + param * decay) * rate)
        else:
            param.mul_(1 - decay * rate).sub_(grad * rate)
        average.copy_(torch.where(mu == 1, param, average + (param - average) * mu))
        step = C.to_number(count)
        # The one for many tensors computes the rate with the tensor that counts.
        eta.copy_(lr / ((1 + decay * lr * (count if at_once else step)) ** how["alpha"]))
        mu.copy_(1 / torch.clamp(step - how["t0"], min=1))


def _moved(value: torch.Tensor, towards: torch.Tensor, weight: Any) -> torch.Tensor:
    """torch.lerp, by a weight that is a number of the graph."""
    way = towards - value
    return torch.where(weight < 0.5, value + way * weight, towards - way * (1 - weight))


def adafactor_steps(
    params: Tensors,
    grads: Tensors,
    row_vars: list[Any],
    col_vars: list[Any],
    variances: list[Any],
    steps: Tensors,
    grad_scale: Any,
    found_inf: Any,
    **how: Any,
) -> None:
    """torch.optim._adafactor._single_tensor_adafactor, and with many tensors."""
    states = (row_vars, col_vars, variances, steps, grad_scale, found_inf)
    if isinstance(how["lr"], torch.Tensor) or any([p.is_complex() or p.numel() == 0 for p in params]):
        return _adafactor_steps(params, grads, *states, **how)
    lr, eps1, weight_decay = how["lr"], how["eps1"], how["weight_decay"]
    for param, given, row, column, variance, count in zip(
        params, grads, row_vars, col_vars, variances, steps, strict=True
    ):
        grad = -given if how["maximize"] else given
        eps1 = torch.finfo(param.dtype).eps if eps1 is None else eps1
        count.add_(1)
        step = C.to_number(count)
        weight, root = step ** how["beta2_decay"], 1 / step**0.5
        size = C.to_number(param.norm(2)) / param.numel() ** 0.5
        rate = _chosen(size > how["eps2"], size, how["eps2"]) * _chosen(root < lr, root, lr)
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            rows = torch.norm(grad, dim=-1, keepdim=True).square() / grad.size(-1)
            columns = torch.norm(grad, dim=-2, keepdim=True).square() / grad.size(-2)
            row.copy_(_moved(row, rows, weight))
            column.copy_(_moved(column, columns, weight))
            estimate = (row @ column) / row.mean(dim=-2, keepdim=True).clamp(min=eps1)
        else:
            variance.copy_(_moved(variance, grad * grad, weight))
            estimate = variance
        update = estimate.clamp(min=eps1 * eps1).rsqrt() * grad
        length = C.to_number(update.norm(2)) / (update.numel() ** 0.5 * how["d"])
        param.sub_(update * (rate / _chosen(length > 1, length, 1.0)))


def change_rates(self: Any, *args: Any, **kwargs: Any) -> None:
    """The `step` of a schedule of learning rates: Python's arithmetic, which goes another way every few steps."""
    C.end_graph("a schedule of learning rates takes a step")


def update_parameters(self: swa_utils.AveragedModel, model: torch.nn.Module) -> None:
    """torch.optim.swa_utils.AveragedModel.update_parameters, which copies at its first call."""
    functions = [one for one in (self.multi_avg_fn, self.avg_fn) if one is not None]
    if any([one.__module__ != swa_utils.__name__ for one in functions]):
        C.end_graph("an average by a function that may not be called the first time")
    averages = [p.detach() for p in (self.module.parameters() if self.use_buffers else self.parameters())]
    others = [p.detach() for p in model.parameters()]
    buffers = list(zip(self.module.buffers(), model.buffers(), strict=not self.use_buffers))
    if self.use_buffers:
        averages.extend([one.detach() for one, _ in buffers])
        others.extend([other.detach() for _, other in buffers])
    pairs = list(
        zip(averages, [other.to(one.device) for one, other in zip(averages, others, strict=False)], strict=False)
    )
    is_first, rate = self.n_averaged == 0, 1 / (self.n_averaged + 1)
    for one, other in pairs:
        is_real = one.is_floating_point() or one.is_complex()
        if self.multi_avg_fn is not None:
            later = one.clone()
            self.multi_avg_fn([later], [other], self.n_averaged)
        elif self.avg_fn is not None:
            later = self.avg_fn(one, other, self.n_averaged)
        else:
            by_lists = is_real and one.device.type in swa_utils._get_foreach_kernels_supported_devices()
            later = (
                torch.lerp(one, other, rate.to(one.dtype))
                if by_lists
                else one + (other - one) / (self.n_averaged + 1)
            )
        one.copy_(torch.where(is_first, other, later))
    if not self.use_buffers:
        for one, other in buffers:
            one.detach().copy_(other.detach().to(one.device))
    self.n_averaged += 1


_adamax_steps = adamax._multi_tensor_adamax
_radam_steps = radam._single_tensor_radam
_asgd_steps, _many_asgd_steps = asgd._single_tensor_asgd, asgd._multi_tensor_asgd
_adafactor_steps = _adafactor._single_tensor_adafactor


def install() -> None:
    C.set_stand_in(adamax._multi_tensor_adamax, adamax_steps)
    for function in (radam._single_tensor_radam, radam._multi_tensor_radam):
        C.set_stand_in(function, radam_steps)
    C.set_stand_in(asgd._single_tensor_asgd, asgd_steps)
    C.set_stand_in(asgd._multi_tensor_asgd, many_asgd_steps)
    for function in (_adafactor._single_tensor_adafactor, _adafactor._multi_tensor_adafactor):
        C.set_stand_in(function, adafactor_steps)
    C.set_stand_in(swa_utils.AveragedModel.update_parameters, update_parameters)
    for kind in vars(lr_scheduler).values():
        if isinstance(kind, type) and "step" in vars(kind):
            C.set_stand_in(vars(kind)["step"], change_rates)
