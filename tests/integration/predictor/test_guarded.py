"""What the guard does about the trained tiny model's own weaknesses, in process and served."""

import json
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from nllb_predictor.convert.run import Converted
from nllb_predictor.engine.domain import Search
from nllb_predictor.engine.model import TranslationEngine
from nllb_predictor.engine.scheduler import Limits, Scheduler
from nllb_predictor.pipeline.answer import Translation
from nllb_predictor.pipeline.faults import longest_repeat
from nllb_predictor.pipeline.request import Ask, Options, TranslateRequest
from nllb_predictor.pipeline.service import TranslationService
from nllb_predictor.server.loading import checkpoint_max_length
from nllb_predictor.settings import ServeSettings
from nllb_predictor.text.languages import Languages
from nllb_predictor.text.tokenise import Tokenizer
from tests.integration.predictor.calls import body
from tests.integration.predictor.conftest import references
from tests.support.cases import case
from tests.support.predictor import Predictor

UNKNOWN_TEXT = "《鹰》与鸡"


def service_of(folder: Path) -> TranslationService:
    engine = TranslationEngine.load(folder, ServeSettings(intra_threads=1, inter_threads=1))
    tokenizer = Tokenizer.from_folder(folder)
    languages = Languages(frozenset(tokenizer.language_codes), *tokenizer.default_pair, any_pair=True)
    return TranslationService(Scheduler(engine, Limits(256, 32)), tokenizer, languages, 1024)


@pytest.fixture
async def service(float32_model: Converted) -> AsyncIterator[TranslationService]:
    service = service_of(Path(float32_model.uri))
    yield service
    service.close()
    service.scheduler.close()


def repeats(text: str) -> int:
    return longest_repeat(re.findall(r"\w+", text))[0]


async def translated(service: TranslationService, texts: Sequence[str], **options: Any) -> list[Translation]:
    asks = tuple(Ask(text, "eng_Latn", "spa_Latn") for text in texts)
    return await service.translate(TranslateRequest(asks, Options(Search(4, 199), **options), timeout=120))


def _nothing_wrong(unit: object, text: object) -> None:
    return None


@case("p03", breaks="nllb_predictor.pipeline.faults:loop", naive=_nothing_wrong)
async def test_p03_verses_in_which_transformers_repeats_itself_come_without_repeats(
    service: TranslationService,
) -> None:
    looping = [
        each
        for each in references("beam4-early")
        if each.target_language == "spa_Latn" and repeats(each.text) > 3
    ]
    assert looping, "the references hold such verses"
    answers = await translated(service, [each.source for each in looping], split_sentences=False)
    for reference, answer in zip(looping, answers, strict=True):
        assert answer.text != reference.text
        assert repeats(answer.text) <= 3
        assert "loop" not in [each.kind.value for each in answer.warnings]


@case("p11", breaks="nllb_predictor.server.loading:checkpoint_max_length", naive=lambda folder: None)
async def test_p11_a_limit_of_20_in_the_models_files_is_told_and_not_obeyed(
    float32_model: Converted, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(float32_model.uri, tmp_path / "model"))
    path = folder / "generation_config.json"
    path.chmod(0o644)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_length": 20}))
    service = service_of(folder)
    longest = max(references("greedy"), key=lambda each: len(each.output_ids))
    asks = (Ask(longest.source, longest.source_language, longest.target_language),)
    [answer] = await service.translate(
        TranslateRequest(asks, Options(Search(1, 199), split_sentences=False), timeout=120)
    )
    service.close()
    service.scheduler.close()
    assert checkpoint_max_length(folder) == 20
    assert answer.target_tokens > 40
    assert "truncated" not in [each.kind.value for each in answer.warnings]


def served(predictor: Predictor, text: str, **changes: Any) -> dict[str, Any]:
    call = body([text], outputs=[{"name": name} for name in ("translation", "warnings", "token_count")])
    call["inputs"] += changes.pop("inputs", [])
    answer = predictor.infer(call | changes)
    assert answer.status_code == 200, answer.text
    return {each["name"]: each["data"][0] for each in answer.json()["outputs"]}


def figure(predictor: Predictor, name: str) -> float:
    lines = httpx.get(f"{predictor.url}/metrics", timeout=30).text.splitlines()
    return float(next((line.rpartition(" ")[2] for line in lines if line.startswith(name)), 0))


def test_p15_p16_unknown_characters_are_named_counted_and_never_shown(any_pair_predictor: Predictor) -> None:
    counter = 'serval_live_warnings_total{kind="unknown_characters"}'
    before = figure(any_pair_predictor, counter)
    answer = served(any_pair_predictor, UNKNOWN_TEXT)
    assert not any(mark in answer["translation"] for mark in ("<unk>", "\u2047"))
    [warning] = json.loads(answer["warnings"])
    assert (warning["kind"], warning["start"], warning["end"]) == ("unknown_characters", 0, 5)
    assert set(warning["detail"]) == set(UNKNOWN_TEXT)
    assert figure(any_pair_predictor, counter) == before + 1
    assert 0 < figure(any_pair_predictor, "serval_live_unknown_rate") <= 1
    route = f"{any_pair_predictor.url}/v2/models/{any_pair_predictor.name}/debug/unknown"
    counts = httpx.get(route, timeout=30).json()["counts"]
    assert set(UNKNOWN_TEXT) <= {each["character"] for each in counts}


def test_p05_digits_alone_are_not_decoded(any_pair_predictor: Predictor) -> None:
    assert served(any_pair_predictor, "7-41-903") == {
        "translation": "7-41-903",
        "warnings": "[]",
        "token_count": 0,
    }


def test_p17_p21_markup_placeholders_names_and_emoji_come_back_once(any_pair_predictor: Predictor) -> None:
    text = "Dear %1$s, {count} <b>men</b> came to Acme 🎉 with %2$d men."
    terms = {"name": "protected_terms", "datatype": "BYTES", "shape": [1], "data": ["Acme"]}
    answer = served(any_pair_predictor, text, inputs=[terms])
    spans = ("%1$s", "{count}", "<b>", "</b>", "Acme", "🎉", "%2$d")
    assert {span: answer["translation"].count(span) for span in spans} == dict.fromkeys(spans, 1)
    assert [each["kind"] for each in json.loads(answer["warnings"])] == []


def test_p20_lines_stay_lines(any_pair_predictor: Predictor) -> None:
    translation = served(any_pair_predictor, "He went.\r\nShe came.\n\nThey sat.")["translation"]
    assert [line.strip() != "" for line in translation.split("\n")] == [True, True, False, True]
    assert translation.count("\r\n") == 1
