"""An item pipeline that lets nothing through until the file named by GATE in the environment is there."""

from __future__ import annotations

import asyncio
import os
from typing import Any


class Gate:
    async def process_item(self, item: Any) -> Any:
        while not os.path.exists(os.environ["GATE"]):  # noqa: ASYNC110, ASYNC240, PTH110 (another process makes it)
            await asyncio.sleep(0.02)
        return item
