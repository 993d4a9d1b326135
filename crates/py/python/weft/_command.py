"""The `weft` command of the wheel: the program in `_bin`, beside which are the libraries that MPI
programs need."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "weft")
    # What is installed beside this command (an `mpiexec`, a `python`) is this program's as well,
    # also where the virtual environment is not active.
    here = os.path.dirname(os.path.abspath(sys.argv[0]))
    path = os.environ.get("PATH", os.defpath)
    if here not in path.split(os.pathsep):
        os.environ["PATH"] = here + os.pathsep + path
    try:
        os.execv(program, ["weft", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"weft: cannot start {program}: {error.strerror}: install the wheel anew")


if __name__ == "__main__":
    main()
