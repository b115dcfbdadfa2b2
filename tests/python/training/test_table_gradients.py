"""Gradients of large tables: memory that the system hands out full of zeros, of which a few rows are written."""

import sys

import pytest
import torch

import braze


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_stays_zero_of_a_tables_gradient_is_not_there():
    rows, width = 40_000, 256  # 41 MB
    table = torch.nn.Embedding(rows, width)
    compiled = braze.compile(table)
    ids = torch.tensor([3, 3, 39_999])
    for _ in range(3):
        table.zero_grad()
        loss = compiled(ids).square().sum()
        before = resident()
        loss.backward()
        assert resident() - before < rows * width
        gradient = table.weight.grad
        assert gradient.data_ptr() % 64 == 0 and gradient.is_contiguous()
    want = torch.zeros(rows, width)
    want[3], want[39_999] = 4 * table.weight[3].detach(), 2 * table.weight[39_999].detach()
    torch.testing.assert_close(gradient, want)


def test_gradients_of_tables_are_added_to_and_written_and_outlive_their_program():
    rows, width = 40_000, 64
    table, kept = torch.nn.Embedding(rows, width, padding_idx=2), []
    compiled = braze.compile(table)
    for step in range(4):
        ids = torch.randint(0, rows, (50,))
        ids[7] = 2
        compiled(ids).sum().backward()  # Added to the one that is there.
        if step % 2:
            torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0)
        kept.append((ids, table.weight.grad.clone()))
    del compiled
    gradient = table.weight.grad
    table.zero_grad()
    for step, (ids, after) in enumerate(kept):
        table(ids).sum().backward()
        if step % 2:
            torch.nn.utils.clip_grad_norm_(table.parameters(), 1.0)
        torch.testing.assert_close(after, table.weight.grad)
    torch.testing.assert_close(gradient, table.weight.grad)
    gradient.resize_(2 * rows, width).fill_(1)  # Memory of a kind that can grow.
    assert gradient.sum() == 2 * rows * width


def test_a_large_scatter_of_every_type_and_size():
    def scattered(ids, values, rows):
        return torch.zeros(rows, 8, dtype=values.dtype).index_add(0, ids, values)

    for dynamic in (None, True):
        for dtype in (torch.float32, torch.float64, torch.int64, torch.bfloat16):
            compiled = braze.compile(scattered, dynamic=dynamic)
            for rows in (1_100_000, 10, 1_200_000):
                ids = torch.randint(0, rows, (0 if rows == 1_200_000 else 33,))
                values = torch.randint(1, 5, (len(ids), 8)).to(dtype)
                torch.testing.assert_close(compiled(ids, values, rows), scattered(ids, values, rows))
