"""The protocol-free form of a v2 call: named tensors, parameters, wanted outputs; and the checks that all forms share.

The KServe SDK has such a type too, but it accepts shapes that do not fit their data, and turns several malformed
requests into a 500.
"""

import math
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from nllb_predictor.errors import BadRequest

Parameter = bool | int | float | str
Value = str | float | int

MOST_DIMENSIONS = 8
"""No input has more than two; up to here the message tells the shape that was sent."""


@dataclass(frozen=True)
class Tensor:
    """`data` is flat, in row-major order; BYTES elements are already text."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: tuple[Value, ...]

    def checked(self) -> "Tensor":
        """Itself, if the shape fits the data. Raises BadRequest naming both. The product of a million dimensions would
        keep the process busy for minutes, and is a number that Python does not print."""
        if len(self.shape) > MOST_DIMENSIONS:
            raise BadRequest(
                f"The shape has {len(self.shape)} dimensions; one has at most {MOST_DIMENSIONS}.",
                field=self.name,
            )
        if any(size < 0 for size in self.shape):
            raise BadRequest(f"The shape {list(self.shape)} has a negative dimension.", field=self.name)
        elements = math.prod(self.shape)
        if elements != len(self.data):
            raise BadRequest(
                f"The shape {list(self.shape)} means {elements} elements, but there are {len(self.data)}.",
                field=self.name,
                hint="A shape counts elements, never bytes or characters.",
            )
        return self


@dataclass(frozen=True)
class OutputAsk:
    """A wanted output; `binary` asks for raw bytes in a REST answer."""

    name: str
    binary: bool = False


@dataclass(frozen=True)
class InferCall:
    """One v2 call. `raw` tells that inputs came as raw bytes, so that the answer may too; `caller` is the opaque name
    that the header or metadata entry `serval-live-caller` gives."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[OutputAsk, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    id: str = ""
    raw: bool = False
    caller: str = ""


@dataclass(frozen=True)
class InferAnswer:
    """One v2 answer."""

    model: str
    version: str
    id: str
    outputs: tuple[Tensor, ...]


CALLER = "serval-live-caller"
"""Header or metadata entry with an opaque name of who asks, set by a gateway that knows its callers."""

MAX_CALLER = 128


def caller(headers: Mapping[str, str | bytes]) -> str:
    """Who asks; empty where nobody says. Names are cut: they are only compared."""
    value = headers.get(CALLER, "")
    return (value.decode("utf-8", "replace") if isinstance(value, bytes) else value)[:MAX_CALLER]


REQUEST_ID = "x-request-id"
"""Header or metadata entry by which a call is found again in the logs."""


def request_id(headers: Mapping[str, str | bytes]) -> str:
    """The caller's name for its request, or a new one where it gives none that can stand in a header."""
    value = headers.get(REQUEST_ID, "")
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else value
    if 0 < len(text) <= MAX_CALLER and text.isascii() and text.isprintable():
        return text
    return str(uuid.uuid4())


def decode_text(data: bytes, name: str) -> str:
    """UTF-8 bytes of one element. Raises BadRequest."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"An element is not UTF-8 (byte {error.start}).", field=name) from None


def split_raw(data: bytes, name: str) -> tuple[str, ...]:
    """Elements of a raw BYTES tensor: each is a little-endian uint32 length and that many bytes. Raises BadRequest
    where the buffer ends inside an element."""
    elements: list[str] = []
    position = 0
    while position < len(data):
        start = position + 4
        if start > len(data):
            raise BadRequest(
                f"The raw data ends inside a length (byte {position} of {len(data)}).", field=name
            )
        length = int.from_bytes(data[position:start], "little")
        if start + length > len(data):
            raise BadRequest(
                f"The raw data ends early: element {len(elements)} has {length} bytes, {len(data) - start} are left.",
                field=name,
            )
        elements.append(decode_text(data[start : start + length], name))
        position = start + length
    return tuple(elements)


def join_raw(tensor: Tensor) -> bytes:
    """Raw bytes of a BYTES, FP32 or INT32 tensor."""
    if tensor.datatype == "BYTES":
        encoded = (str(value).encode("utf-8") for value in tensor.data)
        return b"".join(len(each).to_bytes(4, "little") + each for each in encoded)
    letter = {"FP32": "f", "INT32": "i"}[tensor.datatype]
    return struct.pack(f"<{len(tensor.data)}{letter}", *tensor.data)
