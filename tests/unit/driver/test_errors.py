"""The driver's own errors cross processes as data, as those of every service do."""

import importlib
import pickle
import pkgutil
from collections.abc import Iterator

import pytest

import rollgym.driver
from rollgym.common.errors import RollgymError


def _own_errors(kind: type[RollgymError] = RollgymError) -> Iterator[type[RollgymError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith("rollgym.driver"):
            yield child
        yield from _own_errors(child)


for module in pkgutil.walk_packages(rollgym.driver.__path__, "rollgym.driver."):
    importlib.import_module(module.name)


OWN_ERRORS = {kind.__name__: kind for kind in _own_errors()}


@pytest.mark.parametrize("kind", [OWN_ERRORS[name] for name in sorted(OWN_ERRORS)], ids=sorted(OWN_ERRORS))
def test_an_error_comes_back_from_a_pickle_as_itself(kind: type[RollgymError]) -> None:
    found = pickle.loads(pickle.dumps(kind("it broke", limit=8)))
    assert (type(found), found.message, found.data) == (kind, "it broke", {"limit": 8})
