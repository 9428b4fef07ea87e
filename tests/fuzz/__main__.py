"""``make fuzz MINUTES=10``: damages valid examples at random, and stops at the first that is more than refused.

python -m tests.fuzz [MINUTES] [SEED]
"""

from __future__ import annotations

import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.targets import TARGETS, Target

SECONDS = 5.0  # of CPU: one input that takes longer hangs
MEMORY = 1 << 30  # bytes of address space beyond those at the start: one input that wants more has no bound


def damaged(random_: random.Random, target: Target) -> bytes:
    """An example with a few faults: flips, cuts, copies, tokens, parts of another; or one with other values."""
    example = random_.choice(target.examples)
    if target.rebuild and random_.random() < 0.5:
        return target.rebuild(example, random_)
    data = bytearray(example)
    for _ in range(random_.randint(1, random_.choice((1, 2, 8)))):
        at = random_.randint(0, len(data))
        end = min(len(data), at + random_.choice((1, 2, 4, 16, 64)))
        match random_.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << random_.randrange(8)
            case 1:
                data[at:end] = random_.randbytes(end - at)
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * random_.choice((1, 2, 50))
            case 4:
                data[at:end] = random_.choice(target.tokens)
            case 5:
                data[at:at] = random_.choice(target.tokens)
            case _:
                other = random_.choice(target.examples)
                data[at:] = other[random_.randrange(len(other)) :]
    return bytes(data)


def main(minutes: float, seed: int) -> int:
    """Exit code 1 when an input did harm; it is written to ``fuzz-failure.bin``."""
    random_ = random.Random(seed)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    if pages:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.signal(signal.SIGVTALRM, _too_long)
    tried: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    print(f"seed {seed}, {minutes:g} minutes")
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        for name, target in TARGETS.items():
            data = damaged(random_, target)
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                accepted[name] += target.read(data)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                Path("fuzz-failure.bin").write_bytes(data)
                print(f"{name}: {type(error).__name__}: {error} (seed {seed}; the input is in fuzz-failure.bin)")
                raise
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            tried[name] += 1
    for name, count in tried.items():
        print(f"{name}: {count} inputs, {accepted[name]} accepted, the others refused in one line")
    return 0


class _Hang(BaseException):
    """Not an Exception: no reader may take it for one of its own."""


def _too_long(*_: object) -> None:
    raise _Hang(f"more than {SECONDS} s of CPU")


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    sys.exit(main(float(given.get(1, 1)), int(given.get(2, random.randrange(10**6)))))
