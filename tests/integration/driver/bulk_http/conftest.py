"""A client for each test, and nothing left of it."""

import gc
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from integration.driver.bulk_http.posting import Posting, posting


@pytest.fixture(scope="module", autouse=True)
def what_was_there_before() -> Iterator[None]:
    """Kept from the collector, which runs after each test here."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest_asyncio.fixture
async def bulk() -> AsyncIterator[Posting]:
    async with posting() as bulk:
        yield bulk
