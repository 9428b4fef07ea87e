"""A TCP proxy that makes a server seem far away: `python -m tests.benchmarks.delay TARGET_PORT MILLISECONDS`.

Every reply arrives so many milliseconds later, which is what a network of that round-trip time does to a client that
waits for its answers. A process of its own, so that it takes nothing from the worker it is measured with.
"""

from __future__ import annotations

import asyncio
import sys

_CHUNK = 65_536


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(_CHUNK):
        loop.call_later(delay, writer.write, data)
    loop.call_later(delay, writer.close)


async def serve(target: int, delay: float) -> None:
    """Prints its port on the first line and serves until killed."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(_copy(reader, far_writer, 0), _copy(far_reader, writer, delay))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
