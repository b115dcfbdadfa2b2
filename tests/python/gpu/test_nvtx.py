"""What a tool that listens to NVTX, such as Nsight, hears of compiled programs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from on_gpu import needs_gpu

pytestmark = needs_gpu

LISTENER = Path(__file__).with_name("nvtx_listener.c")
PROGRAM = """
import braze, torch
x, w = torch.randn(32, 64, device="cuda"), torch.randn(64, 16, device="cuda")
compiled = braze.compile(lambda x, w: torch.softmax(torch.nn.functional.gelu(x @ w), -1))
compiled(x, w)
with torch.autograd.profiler.emit_nvtx():
    compiled(x, w)
"""


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    compiler, tools = shutil.which("gcc"), Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    if not compiler or not (tools / "include/nvtx3").is_dir():
        pytest.skip("no C compiler, or no headers of NVTX")
    library = tmp_path_factory.mktemp("nvtx") / "listener.so"
    command = [compiler, "-shared", "-fPIC", "-I", tools / "include", LISTENER, "-o", library]
    subprocess.run(command, check=True)
    return library


def ranges(text):
    """Pairs of a range's name and the names of those that it lies in."""
    found, inside = [], []
    for line in text.splitlines():
        if not line:
            inside.pop()
            continue
        name = line.split(", seq = ")[0].split(", op_id = ")[0]
        found.append((name, tuple(inside)))
        inside.append(name)
    assert not inside, "ranges that do not end"
    return found


def test_ranges_of_a_replay_nest(listener, tmp_path):
    heard = tmp_path / "ranges.txt"
    environment = dict(os.environ, NVTX_INJECTION64_PATH=str(listener), NVTX_LISTENER_OUT=str(heard))
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    found = ranges(heard.read_text())
    names = [name for name, _ in found]
    program = next(name for name in names if name.startswith("braze::program"))
    assert any(name.startswith("braze::guards") for name in names[: names.index(program)])
    (kernel,) = [each for each in found if each[0].startswith("braze::kernel")]
    (call,) = [each for each in found if each[0].startswith("braze::call aten::mm")]
    assert "erf" in kernel[0] and kernel[1][-1] == call[1][-1] == program  # gelu, as it is computed
    # The operator of PyTorch lies in the call that is made of it.
    assert any(name == "aten::mm" and call[0] in inside for name, inside in found)
    assert not any(name.startswith("braze::compile") for name in names)
