"""The one place that imports the KServe SDK, and only the half that serves.

`import kserve` also loads pandas, the Kubernetes client and two hundred API models: about half of a cold start's
Python time, for nothing that a server uses. So the package object is put in place without running its `__init__`,
and pandas, of which the SDK's codecs name one class in annotations, is left out while those modules load. Whoever
asks the package for a public name later (`kserve.InferenceRESTClient`) still gets it: `__init__` then runs.

The SDK also reads `sys.argv` while it is imported; our arguments are none of its business.
"""

import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_once = threading.Lock()


class _DeferredPackage(ModuleType):
    """A package whose `__init__` runs when one of its own names is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or importlib.util.find_spec(f"{self.__name__}.{name}"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _once:
            if type(self) is _DeferredPackage:
                object.__setattr__(self, "__class__", ModuleType)
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer(name: str) -> None:
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise ImportError(f"{name} is not installed")
    package = _DeferredPackage(name)
    package.__spec__ = spec
    package.__file__ = spec.origin
    package.__package__ = name
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules[name] = package


@contextmanager
def _without_pandas() -> Iterator[None]:
    if "pandas" in sys.modules:
        yield
        return
    absent = ModuleType("pandas")
    absent.DataFrame = type("DataFrame", (), {})  # type: ignore[attr-defined]
    sys.modules["pandas"] = absent
    try:
        yield
    finally:
        del sys.modules["pandas"]


@contextmanager
def _without_arguments() -> Iterator[None]:
    arguments, sys.argv = sys.argv, sys.argv[:1]
    try:
        yield
    finally:
        sys.argv = arguments


_defer("kserve")
with _without_pandas(), _without_arguments():
    from kserve.errors import ModelNotFound
    from kserve.model import Model
    from kserve.model_repository import ModelRepository
    from kserve.model_server import ModelServer
    from kserve.protocol.dataplane import DataPlane
    from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
    from kserve.protocol.grpc import grpc_predict_v2_pb2_grpc as services

__all__ = ["DataPlane", "Model", "ModelNotFound", "ModelRepository", "ModelServer", "messages", "services"]
