"""Whether an engine of Serval can be served."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine_operator.domain import reasons
from engine_operator.domain.engine import EngineSelector
from engine_operator.domain.keys import EngineId
from engine_operator.domain.serval_facts import ServalEngine, servable

GOOD = ServalEngine(
    EngineId("66c4a1f09d3e5b7a8c0f1e21"),
    "nmt",
    3,
    True,
    name="team:ruth:1",
    source_language="es",
    target_language="kmr-Latn",
)
ALL = EngineSelector()


@pytest.mark.parametrize(
    ("engine", "selector", "reason"),
    [
        (GOOD, ALL, None),
        (replace(GOOD, is_building=True), ALL, None),
        (replace(GOOD, type="Nmt"), ALL, None),
        (replace(GOOD, type="smt-transfer"), ALL, reasons.ENGINE_TYPE_UNSUPPORTED),
        (replace(GOOD, type="echo"), EngineSelector(types=()), reasons.ENGINE_TYPE_UNSUPPORTED),
        (replace(GOOD, is_model_persisted=False), ALL, reasons.MODEL_NOT_PERSISTED),
        (replace(GOOD, model_revision=0), ALL, reasons.NEVER_TRAINED),
        (GOOD, EngineSelector(names=("team:*",)), None),
        (GOOD, EngineSelector(names=("other:*",)), reasons.NOT_SELECTED),
        (GOOD, EngineSelector(source_languages=("es", "en")), None),
        (GOOD, EngineSelector(source_languages=("en",)), reasons.NOT_SELECTED),
        (GOOD, EngineSelector(target_languages=("fr",)), reasons.NOT_SELECTED),
        (replace(GOOD, is_model_persisted=False, model_revision=0), ALL, reasons.MODEL_NOT_PERSISTED),
        (replace(GOOD, type="echo", model_revision=0), ALL, reasons.ENGINE_TYPE_UNSUPPORTED),
    ],
)
def test_first_verdict_of_the_chain_is_told(
    engine: ServalEngine, selector: EngineSelector, reason: str | None
) -> None:
    verdict = servable(engine, selector)
    assert (verdict.reason if verdict else None) == reason


PAGE = (Path(__file__).parents[4] / "docs" / "what-may-i-serve.md").read_text(encoding="utf-8")


def test_the_page_about_servable_engines_names_only_reasons_that_exist() -> None:
    known = {entry.reason for entry in reasons.ENTRIES}
    # Kinds of the API are written like reasons.
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`", PAGE)) - {"ServalSource", "TranslationEngine"}
    assert len(named) >= 5
    assert named - known == set()


def test_its_table_lists_exactly_the_reasons_that_check_can_report() -> None:
    listed = re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE)
    hopeless = [
        replace(GOOD, type="echo"),
        replace(GOOD, is_model_persisted=False),
        replace(GOOD, model_revision=0),
    ]
    told = [verdict.reason for engine in hopeless if (verdict := servable(engine, ALL)) is not None]
    assert sorted(listed) == sorted(told)
