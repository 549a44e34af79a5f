"""Messages of Triton's statistics, configuration and repository extensions, which the SDK's proto lacks.

Only numbers and types of fields travel, so they have a package and a descriptor pool of their own: Triton's and the
SDK's generated modules name the same symbols and cannot meet in one process. Fields that this server never fills are
left out; clients read those as absent.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

PACKAGE = "serval_live.extensions"

FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "ModelStatisticsRequest": (("name", 1, "string"), ("version", 2, "string")),
    "Duration": (("count", 1, "uint64"), ("ns", 2, "uint64")),
    "InferStatistics": (
        ("success", 1, "Duration"),
        ("fail", 2, "Duration"),
        ("queue", 3, "Duration"),
        ("compute_input", 4, "Duration"),
        ("compute_infer", 5, "Duration"),
        ("compute_output", 6, "Duration"),
    ),
    "BatchStatistics": (("batch_size", 1, "uint64"), ("compute_infer", 3, "Duration")),
    "ModelStatistics": (
        ("name", 1, "string"),
        ("version", 2, "string"),
        ("last_inference", 3, "uint64"),
        ("inference_count", 4, "uint64"),
        ("execution_count", 5, "uint64"),
        ("inference_stats", 6, "InferStatistics"),
        ("batch_stats", 7, "*BatchStatistics"),
    ),
    "ModelStatisticsResponse": (("model_stats", 1, "*ModelStatistics"),),
    "ModelConfigRequest": (("name", 1, "string"), ("version", 2, "string")),
    "ModelInput": (
        ("name", 1, "string"),
        ("data_type", 2, "DataType"),
        ("dims", 4, "*int64"),
        ("optional", 8, "bool"),
    ),
    "ModelOutput": (("name", 1, "string"), ("data_type", 2, "DataType"), ("dims", 3, "*int64")),
    "ModelConfig": (
        ("name", 1, "string"),
        ("platform", 2, "string"),
        ("max_batch_size", 4, "int32"),
        ("input", 5, "*ModelInput"),
        ("output", 6, "*ModelOutput"),
        ("backend", 17, "string"),
    ),
    "ModelConfigResponse": (("config", 1, "ModelConfig"),),
    "RepositoryIndexRequest": (("repository_name", 1, "string"), ("ready", 2, "bool")),
    "ModelIndex": (
        ("name", 1, "string"),
        ("version", 2, "string"),
        ("state", 3, "string"),
        ("reason", 4, "string"),
    ),
    "RepositoryIndexResponse": (("models", 1, "*ModelIndex"),),
}
"""By message: name, number and type of each field; a star repeats it."""

METHODS = ("ModelStatistics", "ModelConfig", "RepositoryIndex")
"""Each asks and answers with the messages of its own name."""

DATA_TYPES = {"TYPE_INVALID": 0, "TYPE_INT32": 8, "TYPE_FP32": 11, "TYPE_STRING": 13}


def _described() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="serval_live/extensions.proto", package=PACKAGE, syntax="proto3"
    )
    choice = file.enum_type.add(name="DataType")
    for name, number in DATA_TYPES.items():
        choice.value.add(name=name, number=number)
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = described.field.add(name=name, number=number)
            field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            kind = kind.removeprefix("*")
            if kind == "DataType" or kind in FIELDS:
                field.type = kinds.TYPE_ENUM if kind == "DataType" else kinds.TYPE_MESSAGE
                field.type_name = f".{PACKAGE}.{kind}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_described())


def message(name: str) -> Any:
    """The class of one of the messages."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


def reflected(service: Any, missing: Collection[str], others: Iterable[Any]) -> Any:
    """A pool of descriptors for server reflection: `service` with our methods and without the missing ones, and the
    files of the other services. grpcurl and its kin can call only what reflection tells of."""
    file = descriptor_pb2.FileDescriptorProto()
    service.file.CopyToProto(file)
    [told] = [each for each in file.service if each.name == service.name]
    offered = [each for each in told.method if each.name not in missing]
    del told.method[:]
    told.method.extend(offered)
    for name in METHODS:
        told.method.add(
            name=name, input_type=f".{PACKAGE}.{name}Request", output_type=f".{PACKAGE}.{name}Response"
        )
    own = _described()
    file.dependency.append(own.name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(own)
    pool.Add(file)
    for other in others:
        pool.AddSerializedFile(other.serialized_pb)
    return pool


def filled(name: str, facts: Mapping[str, Any]) -> Any:
    """A message with these facts."""
    return json_format.ParseDict(dict(facts), message(name)())
