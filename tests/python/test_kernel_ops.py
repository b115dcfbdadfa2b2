"""The operators of tests/kernel_ops.toml run without an ATen call, and as eager does.

A few samples of each in its first dtype; with BRAZE_OPINFO=all every sample in every dtype.
"""

import os

import kernel_ops
import opinfo_sweep
import pytest

EVERYTHING = os.environ.get("BRAZE_OPINFO") == "all"
PARTS = 16


@pytest.fixture(scope="module")
def operators():
    return {opinfo_sweep.name_of(op): op for op in opinfo_sweep.operators()}


def test_table_names_operators(operators):
    unknown = [name for name in kernel_ops.table() if name not in operators]
    assert not unknown, f"kernel_ops.toml names what OpInfo does not: {unknown}"


@pytest.mark.parametrize("part", range(PARTS))
def test_operators_become_kernels(operators, part, record_property):
    rows = list(kernel_ops.table().items())[part::PARTS]
    total = kernel_ops.Share()
    wrong = []
    for name, dtypes in rows:
        supported = [dtype for dtype in dtypes if dtype in operators[name].supported_dtypes("cpu")]
        # float32 first: it is what most programs use.
        supported.sort(key=lambda dtype: str(dtype) != "torch.float32")
        for dtype in supported if EVERYTHING else supported[:1]:
            share = kernel_ops.judge(operators[name], dtype, 0 if EVERYTHING else 3)
            wrong += share.failures
            if share.kernels < share.samples - len(share.failures):
                calls = ", ".join(f"{call} {count}x" for call, count in share.calls.most_common())
                wrong.append(
                    f"{name} {dtype}: {share.kernels} of {share.samples} are kernels alone; ATen ran {calls}"
                )
            total.kernels += share.kernels
            total.samples += share.samples
    record_property("samples of kernels alone", f"{total.kernels} of {total.samples}")
    assert total.samples, "no operator of this part had a sample"
    assert not wrong, "\n".join(wrong)
