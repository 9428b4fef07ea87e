"""Child processes that do not outlive a parent who is killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def dies_with_parent(signal_: int) -> Callable[[], None] | None:
    """For ``preexec_fn``: on Linux the kernel sends the child this signal when its parent ends; None elsewhere."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def in_child() -> None:
        prctl(1, signal_)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return in_child
