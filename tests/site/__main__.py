"""``python -m tests.site --pages 1000 --port 0``: serves a site and prints its start URLs on the first line."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
import threading

from tests.site import options
from tests.site.app import Application
from tests.site.server import Listener, serve
from tests.site.world import World


def main() -> int:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m tests.site", description=__doc__.partition(":")[2].strip())
    parser.add_argument("--port", type=int, default=0, help="0 (default): a free one")
    parser.add_argument("--host", default="", help="address to listen on; default 127.0.0.1, .2, .3 ... by host")
    parser.add_argument("--names", default="", help="names of the hosts, comma-separated, when not those addresses")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input ends (the parent is gone)")
    options.add_arguments(parser)
    flags = parser.parse_args()
    try:
        chosen = options.from_arguments(flags)
        listener = Listener(chosen, flags.port, flags.host, [name for name in flags.names.split(",") if name])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    app = Application(World(chosen), listener.authorities)
    print(",".join(f"http://{name}/" for name in listener.authorities), flush=True)
    asyncio.run(_serve(app, listener, flags.until_eof))
    return 0


def _watch_input(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    sys.stdin.buffer.read()
    with contextlib.suppress(RuntimeError):  # the loop is closed already
        loop.call_soon_threadsafe(stop.set)


async def _serve(app: Application, listener: Listener, until_eof: bool) -> None:
    stop = asyncio.Event()
    if until_eof:
        loop = asyncio.get_running_loop()
        threading.Thread(target=_watch_input, args=(loop, stop), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(app, listener.sockets, stop)


if __name__ == "__main__":
    sys.exit(main())
