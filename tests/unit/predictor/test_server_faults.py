"""One table from errors to both protocols."""

import grpc
import pytest

from nllb_predictor import errors
from nllb_predictor.server.faults import TABLE, fault_of

REST_AND_GRPC = {
    400: {"INVALID_ARGUMENT"},
    404: {"NOT_FOUND"},
    408: {"DEADLINE_EXCEEDED"},
    413: {"RESOURCE_EXHAUSTED"},
    429: {"RESOURCE_EXHAUSTED"},
    503: {"UNAVAILABLE", "RESOURCE_EXHAUSTED"},
    504: {"DEADLINE_EXCEEDED"},
}


def test_every_request_error_has_a_row_and_both_protocols_agree() -> None:
    assert set(TABLE) == set(errors.RequestError.__subclasses__())
    for row in TABLE.values():
        assert row.code in REST_AND_GRPC[row.status]
        assert row.code in grpc.StatusCode.__members__


def test_an_error_that_passes_by_itself_says_when_to_come_back() -> None:
    for kind, row in TABLE.items():
        if row.status in (429, 503):
            assert kind.retryable
            assert row.retry_after is not None


def test_both_protocols_use_the_same_words() -> None:
    fault = fault_of(
        errors.UnknownLanguage("No such language.", field="target_language", hint="Near matches: spa_Latn.")
    )
    assert fault.body() == {
        "error": "No such language.",
        "reason": "UnknownLanguage",
        "field": "target_language",
        "hint": "Near matches: spa_Latn.",
    }
    for words in fault.body().values():
        assert words in fault.details()


def test_an_unforeseen_error_is_internal_and_keeps_the_payload_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fault = fault_of(ValueError("a caller's secret text"))
    assert (fault.status, fault.code, fault.reason) == (500, "INTERNAL", "Internal")
    assert "secret" not in fault.message
    assert "a caller's secret text" in caplog.text


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_no_memory_for_python_itself_is_told_as_such(error: Exception) -> None:
    fault = fault_of(error)
    assert (fault.status, fault.code, fault.reason) == (503, "RESOURCE_EXHAUSTED", "OutOfMemory")


def test_an_estimated_time_to_wait_goes_before_the_usual_one_in_whole_seconds() -> None:
    fault = fault_of(errors.Overloaded("full", retry_after=12.2))
    assert fault.headers() == {"retry-after": "13"}
    assert dict(fault.metadata())["retry-after"] == "13"


def test_words_of_a_caller_do_not_make_a_refusal_a_lack_of_memory() -> None:
    assert fault_of(errors.BadRequest("There is no parameter 'can't start new thread'.")).status == 400


def test_what_a_caller_sent_is_repeated_in_part_only() -> None:
    long = "é\n" * 4_000_000
    fault = fault_of(errors.BadRequest(f"There is no {long}.", field=long, hint=long))
    assert all(len(words) <= 600 for words in fault.body().values())
    assert fault.body()["error"].startswith("There is no é")


@pytest.mark.parametrize("field", ["täxt", "a\nb", "\U0001f600", "\x00"])
def test_a_made_up_name_can_stand_in_grpc_metadata(field: str) -> None:
    [told] = [
        value for key, value in fault_of(errors.BadRequest("No.", field=field)).metadata() if "field" in key
    ]
    assert told.isascii()
    assert told.isprintable()
