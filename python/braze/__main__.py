"""python -m braze run script.py ...: runs a script whose torch.compile is braze's."""

import argparse
import os
import runpy
import sys

from braze._torch_face.install import install
from braze._torch_face.logs import DEBUG_FOLDER


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m braze", description="A compiler for PyTorch programs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    run = commands.add_parser(
        "run",
        help="run an unmodified script with torch.compile answered by braze",
        description="Runs a script or, with -m, a module. torch.compile, torch.compiler, torch._dynamo, "
        "torch._inductor and TORCH_LOGS are answered by braze; the real ones are not imported.",
    )
    run.add_argument("-m", dest="is_module", action="store_true", help="the name of a module follows")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="handed to the script")
    asked = parser.parse_args()
    # torch imports the real torch._dynamo when it finds this variable, and it is imported already.
    if os.environ.pop("TORCH_COMPILE_DEBUG", "0") == "1":
        os.environ[DEBUG_FOLDER] = "1"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    install()
    sys.argv = [asked.script, *asked.arguments]
    if asked.is_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(asked.script, run_name="__main__", alter_sys=True)
        return
    try:
        with open(asked.script, "rb"):
            pass
    except IsADirectoryError:  # Runs its __main__.py.
        pass
    except OSError as error:
        print(
            f"{sys.executable}: can't open file {os.path.abspath(asked.script)!r}:"
            f" [Errno {error.errno}] {error.strerror}",
            file=sys.stderr,
        )
        sys.exit(2)
    # As python itself does: the script's folder comes first on the path.
    sys.path[0] = os.path.dirname(os.path.abspath(asked.script))
    runpy.run_path(asked.script, run_name="__main__")


if __name__ == "__main__":
    main()
