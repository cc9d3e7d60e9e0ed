"""Functions that call deeply, without the system calls of CPython at the edges of its call stack."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

# In pointers. CPython stores frames in chunks of memory, of which a larger frame gets a larger one: half a megabyte for
# this one, with as much for the frames of its calls. Only what is used of it becomes memory.
FRAME = 32 * 1024

P = ParamSpec("P")
R = TypeVar("R")


def roomy(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that makes room for the frames of its calls.

    Otherwise a chunk has 16 KiB, and is full after about a hundred calls. A loop there that calls a function maps and
    unmaps a chunk at each call, which takes 9 us instead of 0.1 us. A request of many middlewares and templates has
    its loops there: the rows of a table took four times as long. Fixed in CPython 3.13 and 3.14
    (https://github.com/python/cpython/issues/142183), not in 3.11 and 3.12.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    call.__code__ = call.__code__.replace(co_stacksize=FRAME)
    return functools.wraps(function)(call)
