"""A client for each test, and nothing left of it."""

from collections.abc import AsyncIterator

import pytest_asyncio

from integration.driver.bulk_http.posting import Posting, posting


@pytest_asyncio.fixture
async def bulk() -> AsyncIterator[Posting]:
    async with posting() as bulk:
        yield bulk
