"""The operator's words against the documents that converter and predictor write by."""

from engine_operator.domain import reasons
from serval_live_contract import process_reasons


def test_a_conversion_is_given_up_for_exactly_the_reasons_that_the_contract_calls_final() -> None:
    assert {each.reason for each in process_reasons() if each.final} == reasons.HOPELESS


def test_the_operator_documents_no_final_reason_of_a_process_as_its_own() -> None:
    """A word of both would have two meanings: those with which a Job ends for good are passed on as they are."""
    own = {entry.reason for entry in reasons.ENTRIES}
    assert not own & {each.reason for each in process_reasons() if each.final}
