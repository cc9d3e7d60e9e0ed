#!{python} -I
"""A Python interpreter for the host with a noisy login and a changed clock; files beside it configure both.

Only Python's clock is set: that of the whole machine is left to virtual ones.
"""

import os
import runpy
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
_time = time.time


def read_file(name):
    try:
        with open(os.path.join(HERE, name), "rb") as file:
            return file.read()
    except (FileNotFoundError, PermissionError):  # a process that is about to become the load has another account
        return b""


def offset():
    return float(read_file("clock") or 0)


time.time = lambda: _time() + offset()
sys.stdout.buffer.write(read_file("greeting"))
sys.stdout.flush()
_, dash_i, program, *arguments = sys.argv
if program == "-c":
    sys.argv = ["-c", *arguments[1:]]
    exec(arguments[0], {"__name__": "__main__"})
elif os.path.exists(program):
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
else:
    sys.exit(2)  # as Python itself does
