"""Bytes of each protocol to one call: every form of the same request is the same call, every malformed one a
BadRequest that names the tensor."""

import contextlib
import gzip
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor.engine.domain import Search
from nllb_predictor.errors import BadRequest, PayloadTooLarge, RequestError
from nllb_predictor.pipeline.answer import Alternative, Translation, Warned, WarningKind
from nllb_predictor.pipeline.request import Ask, Wants
from nllb_predictor.server.sdk import messages
from nllb_predictor.server.wire import contract, outputs, rest_v1, rest_v2
from nllb_predictor.server.wire import grpc as wire_grpc
from nllb_predictor.server.wire.contract import Defaults
from nllb_predictor.server.wire.tensors import InferAnswer, InferCall, OutputAsk, Tensor, join_raw, split_raw
from tests.support.cases import case

DEFAULTS = Defaults(Search(4, 512), 30_000, 8, 300_000)
TEXTS = ("In the beginning", "¿Qué? 鷹 👩‍👩‍👧", "")
LEFT, RIGHT = "eng_Latn", "es"


def raw(*texts: str) -> bytes:
    """The protocol's own words: little-endian uint32 length, then the bytes."""
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def v2_body(**changes: Any) -> dict[str, Any]:
    text = {"name": "text", "datatype": "BYTES", "shape": [3], "data": list(TEXTS)} | changes
    target = {"name": "target_language", "datatype": "BYTES", "shape": [1], "data": [RIGHT]}
    return {"id": "7", "inputs": [text, target], "parameters": {"beam_size": 2}}


def v2(body: Any, **headers: str) -> InferCall:
    return rest_v2.decode(
        json.dumps(body).encode(), {key.replace("_", "-"): value for key, value in headers.items()}
    )


def v2_binary() -> InferCall:
    data = raw(*TEXTS)
    body = v2_body()
    del body["inputs"][0]["data"]
    body["inputs"][0]["parameters"] = {"binary_data_size": len(data)}
    text = json.dumps(body).encode()
    return rest_v2.decode(text + data, {rest_v2.JSON_LENGTH: str(len(text))})


def grpc_request(raw_form: bool, shape: list[int]) -> Any:
    request = messages.ModelInferRequest(model_name="m", id="7")
    request.parameters["beam_size"].int64_param = 2
    for name, size, values in (("text", shape, TEXTS), ("target_language", [1], (RIGHT,))):
        tensor = request.inputs.add(name=name, datatype="BYTES", shape=size)
        if raw_form:
            request.raw_input_contents.append(raw(*values))
        else:
            tensor.contents.bytes_contents.extend(value.encode() for value in values)
    return request


def _lenient_split(data: bytes, name: str) -> tuple[str, ...]:
    elements, position = [], 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 4], "little")
        elements.append(data[position + 4 : position + 4 + length].decode(errors="replace"))
        position += 4 + length
    return tuple(elements)


def _raw_goes_first(tensor: Any, raw: bytes | None) -> Tensor:
    data = split_raw(raw or b"", tensor.name)
    return Tensor(tensor.name, tensor.datatype, tuple(tensor.shape), data)


FORMS: dict[str, Callable[[], InferCall]] = {
    "flat list": lambda: v2(v2_body()),
    "flat list, shape [n,1]": lambda: v2(v2_body(shape=[3, 1])),
    "nested list": lambda: v2(v2_body(shape=[3, 1], data=[[text] for text in TEXTS])),
    "binary": v2_binary,
    "gRPC typed": lambda: wire_grpc.decode(grpc_request(False, [3])),
    "gRPC typed, shape [n,1]": lambda: wire_grpc.decode(grpc_request(False, [3, 1])),
    "gRPC raw": lambda: wire_grpc.decode(grpc_request(True, [3])),
}


@case("p55", breaks="nllb_predictor.server.wire.contract:column", naive=lambda tensor: tensor.data[:1])
@pytest.mark.parametrize("form", FORMS)
def test_p55_every_encoding_of_a_request_is_the_same_request(form: str) -> None:
    request = contract.request_of(FORMS[form](), DEFAULTS, Wants())
    assert request.asks == tuple(Ask(text, None, RIGHT) for text in TEXTS)
    assert request.options.search == Search(2, 512)


def test_a_v1_request_says_the_same_with_languages_per_instance() -> None:
    body = {
        "instances": [
            {"text": TEXTS[0], "target_language": RIGHT},
            TEXTS[1],
            {"text": "", "source_language": LEFT},
        ]
    }
    call, rows = rest_v1.decode(json.dumps(body).encode())
    assert contract.request_of(call, DEFAULTS, Wants(), rows).asks == (
        Ask(TEXTS[0], None, RIGHT),
        Ask(TEXTS[1]),
        Ask("", LEFT),
    )


TEXT = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["x"]}

THREE_TEXTS = TEXT | {"shape": [3], "data": ["a", "b", "c"]}
TWO_TARGETS = {"name": "target_language", "datatype": "BYTES", "shape": [2], "data": ["es", "en"]}

MALFORMED_V2: dict[str, tuple[Any, str]] = {
    "bare string": ({"inputs": [TEXT | {"data": "hi"}]}, "text"),
    "number": ({"inputs": [TEXT | {"data": [5]}]}, "text"),
    "null": ({"inputs": [TEXT | {"data": [None]}]}, "text"),
    "no data": ({"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1]}]}, "text"),
    "byte length as shape": ({"inputs": [TEXT | {"shape": [11]}]}, "text"),
    "no shape": ({"inputs": [TEXT | {"shape": None}]}, "text"),
    "negative shape": ({"inputs": [TEXT | {"shape": [-1]}]}, "text"),
    "boolean shape": ({"inputs": [TEXT | {"shape": [True]}]}, "text"),
    "wide shape": ({"inputs": [TEXT | {"shape": [1, 2], "data": ["a", "b"]}]}, "text"),
    "flat shape": ({"inputs": [TEXT | {"shape": []}]}, "text"),
    "a thousand huge dimensions": ({"inputs": [TEXT | {"shape": [2**62] * 1000}]}, "text"),
    "wrong datatype": ({"inputs": [TEXT | {"datatype": "INT32"}]}, "text"),
    "no datatype": ({"inputs": [TEXT | {"datatype": None}]}, "text"),
    "no text": ({"inputs": [TEXT | {"name": "source_language"}]}, "text"),
    "unknown input": ({"inputs": [TEXT, TEXT | {"name": "target_langauge"}]}, "target_langauge"),
    "same input twice": ({"inputs": [TEXT, TEXT]}, "text"),
    "inputs no list": ({"inputs": {"text": "x"}}, "inputs"),
    "input no object": ({"inputs": ["x"]}, "inputs"),
    "two languages for three texts": ({"inputs": [THREE_TEXTS, TWO_TARGETS]}, "target_language"),
    "more terms than are looked for": (
        {"inputs": [TEXT, TEXT | {"name": "protected_terms", "shape": [1001], "data": ["x"] * 1001}]},
        "protected_terms",
    ),
    "unknown parameter": ({"inputs": [TEXT], "parameters": {"beamsize": 1}}, "beamsize"),
    "parameter of a wrong kind": ({"inputs": [TEXT], "parameters": {"beam_size": "4"}}, "beam_size"),
    "boolean for a number": ({"inputs": [TEXT], "parameters": {"beam_size": True}}, "beam_size"),
    "too many beams": ({"inputs": [TEXT], "parameters": {"beam_size": 9}}, "beam_size"),
    "no time": ({"inputs": [TEXT], "parameters": {"timeout_ms": 0}}, "timeout_ms"),
    "parameters no object": ({"inputs": [TEXT], "parameters": []}, "parameters"),
    "nested parameter": ({"inputs": [TEXT], "parameters": {"beam_size": [1]}}, "beam_size"),
    "id no string": ({"inputs": [TEXT], "id": 5}, "id"),
    "outputs no list": ({"inputs": [TEXT], "outputs": "translation"}, "outputs"),
    "output without name": ({"inputs": [TEXT], "outputs": [{}]}, "outputs"),
    "body no object": ([], ""),
}


@case("p59", breaks="nllb_predictor.server.wire.tensors:Tensor.checked", naive=lambda self: self)
@pytest.mark.parametrize("fault", MALFORMED_V2)
def test_p59_a_malformed_v2_request_is_a_bad_request_that_names_the_part(fault: str) -> None:
    body, field = MALFORMED_V2[fault]
    with pytest.raises(BadRequest) as refused:
        contract.request_of(v2(body), DEFAULTS, Wants())
    assert refused.value.field == field


@case("p59", breaks="nllb_predictor.server.wire.tensors:Tensor.checked", naive=lambda self: self)
def test_p59_the_message_names_shape_and_count() -> None:
    with pytest.raises(BadRequest, match=r"\[11\] means 11 elements, but there are 1"):
        v2({"inputs": [TEXT | {"shape": [11]}]})


@case("p55", breaks="nllb_predictor.server.wire.rest_v2:_flat", naive=lambda item, name: tuple(item["data"]))
def test_p55_a_bare_string_gets_a_hint_how_to_write_it() -> None:
    with pytest.raises(BadRequest) as refused:
        v2({"inputs": [TEXT | {"data": "hi"}]})
    assert refused.value.hint == 'Write "data": ["hi"].'


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"\xff\xfe", b'{"inputs": NaN}', b'{"inputs":[' * 5000, b'{"id": "\\ud800"}']
)
def test_a_body_that_is_no_json_text_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        rest_v2.decode(body, {})


@case("p56", breaks="nllb_predictor.server.wire.rest_v2:_parts", naive=lambda body, header: (body, b""))
@pytest.mark.parametrize("length", ["-1", "999999", "x", "1.5", "\u0665"])
def test_p56_a_wrong_header_length_is_a_bad_request(length: str) -> None:
    with pytest.raises(BadRequest, match="bytes"):
        rest_v2.decode(json.dumps(v2_body()).encode(), {rest_v2.JSON_LENGTH: length})


@case("p57", breaks="nllb_predictor.server.wire.tensors:split_raw", naive=_lenient_split)
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_p57_a_truncated_binary_tensor_is_a_bad_request(cut: int) -> None:
    data = raw("hello")[:-cut]
    body = {
        "inputs": [
            {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(data)}}
        ]
    }
    text = json.dumps(body).encode()
    with pytest.raises(BadRequest) as refused:
        rest_v2.decode(text + data, {rest_v2.JSON_LENGTH: str(len(text))})
    assert refused.value.field == "text"


def test_bytes_after_the_last_binary_tensor_are_a_bad_request() -> None:
    text = json.dumps({"inputs": [TEXT]}).encode()
    with pytest.raises(BadRequest, match="3 bytes follow"):
        rest_v2.decode(text + b"abc", {rest_v2.JSON_LENGTH: str(len(text))})


@case("p56", breaks="nllb_predictor.server.wire.rest_v2:unpacked", naive=lambda body, encoding, limit: body)
def test_p56_gzip_is_unpacked_and_a_bomb_is_refused() -> None:
    body = json.dumps(v2_body()).encode()
    assert rest_v2.unpacked(gzip.compress(body), "gzip", 10_000) == body
    assert rest_v2.unpacked(body, "", 10_000) == body
    with pytest.raises(PayloadTooLarge, match="max-message-bytes"):
        rest_v2.unpacked(gzip.compress(b" " * 1_000_000), "gzip", 10_000)
    with pytest.raises(BadRequest):
        rest_v2.unpacked(gzip.compress(body)[:-9], "gzip", 10_000)
    with pytest.raises(BadRequest):
        rest_v2.unpacked(body, "gzip", 10_000)
    with pytest.raises(BadRequest, match="zstd"):
        rest_v2.unpacked(body, "zstd", 10_000)


@case("p57", breaks="nllb_predictor.server.wire.grpc:_tensor", naive=_raw_goes_first)
def test_p57_raw_and_typed_contents_together_are_refused() -> None:
    request = grpc_request(True, [3])
    request.inputs[0].contents.bytes_contents.append(b"x")
    with pytest.raises(BadRequest, match="both raw and typed"):
        wire_grpc.decode(request)


@case("p57", breaks="nllb_predictor.server.wire.tensors:split_raw", naive=_lenient_split)
def test_p57_truncated_raw_contents_are_a_bad_request() -> None:
    request = grpc_request(True, [3])
    request.raw_input_contents[0] = request.raw_input_contents[0][:-1]
    with pytest.raises(BadRequest):
        wire_grpc.decode(request)


@case("p57", breaks="nllb_predictor.server.wire.grpc:decode")
def test_p57_a_missing_raw_tensor_is_a_bad_request_that_counts() -> None:
    request = grpc_request(True, [3])
    del request.raw_input_contents[1]
    with pytest.raises(BadRequest, match="2 inputs and 1 raw"):
        wire_grpc.decode(request)


def test_text_in_another_typed_field_is_a_bad_request() -> None:
    request = messages.ModelInferRequest()
    request.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.int_contents.append(5)
    with pytest.raises(BadRequest, match="bytes_contents"):
        wire_grpc.decode(request)


def test_bytes_that_are_no_text_are_a_bad_request() -> None:
    request = messages.ModelInferRequest()
    request.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"\xff")
    with pytest.raises(BadRequest, match="UTF-8"):
        wire_grpc.decode(request)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"instances": "x"}, "instances"),
        ({"instances": {"text": "x"}}, "instances"),
        ({}, "instances"),
        ({"instances": [5]}, "instances[0]"),
        ({"instances": [{}]}, "instances[0].text"),
        ({"instances": ["a", {"text": 5}]}, "instances[1].text"),
        ({"instances": [{"text": "x", "lang": "es"}]}, "lang"),
        ({"instances": ["x"], "outputs": "score"}, "outputs"),
    ],
)
def test_a_malformed_v1_request_is_a_bad_request_that_names_the_part(body: Any, field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        rest_v1.decode(json.dumps(body).encode())
    assert refused.value.field == field


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]))))
def test_raw_text_survives_the_round_trip(texts: list[str]) -> None:
    tensor = Tensor("text", "BYTES", (len(texts),), tuple(texts))
    assert join_raw(tensor) == raw(*texts)
    assert split_raw(raw(*texts), "text") == tuple(texts)


WORDS = st.sampled_from(["name", "shape", "data", "datatype", "parameters", "text", "inputs", "outputs"])
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
)


@given(st.dictionaries(WORDS, JSON_VALUES), JSON_VALUES)
def test_any_json_is_a_request_or_a_typed_error(body: dict[str, Any], value: Any) -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": value, "data": value}
    for each in (body, body | {"inputs": [tensor]}, {"inputs": [value, tensor]}, {"instances": [value]}):
        encoded = json.dumps(each).encode()
        with contextlib.suppress(RequestError):
            assert contract.request_of(rest_v2.decode(encoded, {}), DEFAULTS, Wants()).timeout > 0
        with contextlib.suppress(RequestError):
            assert rest_v1.decode(encoded)[0].inputs


RESULTS = [
    Translation((Alternative("Luz.", -0.25), Alternative("La luz.", -0.5)), (), 4, 3),
    Translation((Alternative("", 0.0),)),
]


def test_outputs_are_those_that_were_asked_for_in_that_order() -> None:
    both = outputs.asked_outputs((OutputAsk("score"), OutputAsk("translation")))
    assert outputs.tensors_of(RESULTS, both) == (
        Tensor("score", "FP32", (2, 2), (-0.25, -0.5, 0.0, 0.0)),
        Tensor("translation", "BYTES", (2, 2), ("Luz.", "La luz.", "", "")),
    )
    assert [tensor.name for tensor in outputs.tensors_of(RESULTS, outputs.asked_outputs(()))] == [
        "translation"
    ]


def test_hypotheses_are_counted_where_several_were_asked_for() -> None:
    asks = outputs.with_count((OutputAsk("translation"),), 2)
    assert outputs.tensors_of(RESULTS, asks)[1] == Tensor("hypothesis_count", "INT32", (2,), (2, 1))
    assert outputs.with_count((OutputAsk("translation"),), 1) == (OutputAsk("translation"),)


def test_counts_and_warnings_are_told_per_segment() -> None:
    warned = Warned(WarningKind.UNKNOWN_CHARACTERS, "The model cannot read 1 character.", 0, 1, ("鹰",))
    answer = Translation((Alternative("x", -1.0),), (warned,), 3, 2)
    tokens, told = outputs.tensors_of([answer], (OutputAsk("token_count"), OutputAsk("warnings")))
    assert tokens == Tensor("token_count", "INT32", (1, 2), (3, 2))
    assert json.loads(str(told.data[0])) == [
        {
            "kind": "unknown_characters",
            "message": "The model cannot read 1 character.",
            "start": 0,
            "end": 1,
            "detail": ["鹰"],
        }
    ]


@pytest.mark.parametrize(
    ("beams", "hypotheses", "search"), [(None, None, 4), (None, 6, 6), (8, 3, 8), (None, 1, 4)]
)
def test_more_hypotheses_than_default_beams_raise_the_beams(
    beams: int | None, hypotheses: int | None, search: int
) -> None:
    given = {"beam_size": beams, "num_hypotheses": hypotheses}
    parameters = {name: value for name, value in given.items() if value is not None}
    call = v2({"inputs": [TEXT], "parameters": parameters})
    options = contract.request_of(call, DEFAULTS, Wants()).options
    assert (options.search.beams, options.hypotheses) == (search, hypotheses or 1)


def test_more_hypotheses_than_named_beams_are_refused() -> None:
    call = v2({"inputs": [TEXT], "parameters": {"beam_size": 2, "num_hypotheses": 3}})
    with pytest.raises(BadRequest) as refused:
        contract.request_of(call, DEFAULTS, Wants())
    assert refused.value.field == "num_hypotheses"


def test_an_unknown_output_is_refused_with_the_nearest_word() -> None:
    with pytest.raises(BadRequest) as refused:
        outputs.asked_outputs((OutputAsk("translations"),))
    assert refused.value.hint == "Did you mean translation?"


ANSWER = InferAnswer(
    "m",
    "3",
    "7",
    (Tensor("translation", "BYTES", (2, 1), ("Luz.", "ñ")), Tensor("score", "FP32", (2, 1), (-0.25, 0.0))),
)


def test_a_binary_answer_holds_what_the_json_one_says() -> None:
    body, headers = rest_v2.encode(ANSWER, (OutputAsk("translation", True), OutputAsk("score", True)))
    length = int(headers[rest_v2.JSON_LENGTH])
    described = json.loads(body[:length])
    sizes = [output["parameters"]["binary_data_size"] for output in described["outputs"]]
    assert body[length : length + sizes[0]] == raw("Luz.", "ñ")
    assert struct.unpack("<2f", body[length + sizes[0] :]) == (-0.25, 0.0)
    plain = json.loads(rest_v2.encode(ANSWER, ())[0])
    assert [output["data"] for output in plain["outputs"]] == [["Luz.", "ñ"], [-0.25, 0.0]]
    assert (plain["model_name"], plain["model_version"], plain["id"]) == ("m", "3", "7")


def test_a_grpc_answer_comes_in_the_form_of_its_request() -> None:
    typed, packed = wire_grpc.encode(ANSWER, raw=False), wire_grpc.encode(ANSWER, raw=True)
    assert list(typed.outputs[0].contents.bytes_contents) == [b"Luz.", "ñ".encode()]
    assert list(typed.outputs[1].contents.fp32_contents) == [-0.25, 0.0]
    assert not typed.raw_output_contents
    assert list(packed.raw_output_contents) == [raw("Luz.", "ñ"), struct.pack("<2f", -0.25, 0.0)]
    assert [list(output.shape) for output in packed.outputs] == [[2, 1], [2, 1]]


def test_a_v1_answer_has_one_object_per_instance() -> None:
    assert json.loads(rest_v1.encode(ANSWER.outputs, InferCall(()))) == {
        "predictions": [{"translation": "Luz.", "score": -0.25}, {"translation": "ñ", "score": 0.0}]
    }


def test_a_v1_answer_lists_hypotheses_where_several_were_asked_for() -> None:
    asks = (OutputAsk("translation"), OutputAsk("hypothesis_count"), OutputAsk("token_count"))
    body = rest_v1.encode(outputs.tensors_of(RESULTS, asks), InferCall((), (), {"num_hypotheses": 2}))
    assert json.loads(body)["predictions"] == [
        {"translation": ["Luz.", "La luz."], "hypothesis_count": 2, "token_count": [4, 3]},
        {"translation": ["", ""], "hypothesis_count": 1, "token_count": [0, 0]},
    ]


def test_a_header_of_more_digits_than_python_reads_is_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        rest_v2.decode(b"{}", {rest_v2.JSON_LENGTH: "9" * 5000})
