"""Programs that two processes on the CPU run together, by gloo."""

import os
import socket
import subprocess
import sys

BEGIN = """
import copy, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import braze

dist.init_process_group("gloo")
rank = dist.get_rank()
"""

END = """
dist.destroy_process_group()
print("done", flush=True)
# A thread of gloo may still hold tensors of the last collective call, and aborts the process when it lets go of
# them while the interpreter ends (https://github.com/pytorch/pytorch/pull/179291): the interpreter does not end.
os._exit(0)
"""


def run_in_two(program: str, timeout: int = 400) -> str:
    """Both must get to the end. Gives what the first has printed."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    processes = []
    for rank in range(2):
        own = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        own["CUDA_VISIBLE_DEVICES"] = ""  # DataParallel takes no module of the CPU where there are GPUs.
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", BEGIN + program + END],
                env={**os.environ, **own, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = []
    for process in processes:
        output, error = process.communicate(timeout=timeout)
        assert process.returncode == 0 and "done" in output, output + error
        outputs.append(output)
    return outputs[0]
