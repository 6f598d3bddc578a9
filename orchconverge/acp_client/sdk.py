"""The SDK's connection, without its schema.

Importing ``acp`` builds models for the whole protocol: half a second and 15 MB beside an agent that is there in half a
second. What we send is held against those models by the tests instead, and nothing that an agent sends is believed anyway.
"""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

if "acp" not in sys.modules:
    _package = ModuleType("acp")
    _found = importlib.util.find_spec("acp")
    _package.__path__ = list((_found and _found.submodule_search_locations) or ())
    sys.modules["acp"] = _package

from acp.connection import Connection
from acp.exceptions import RequestError

__all__ = ["Connection", "RequestError"]
