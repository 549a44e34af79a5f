"""Words are cut where Serval's clients cut them. The second source is machine.py's own tokenizer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine.tokenization import LatinWordDetokenizer, LatinWordTokenizer

from nllb_predictor.text.words import detokenize, tokenize

MARKS = (
    "ab1Z '’\"“”‘‹›«».,;:-_=&?@/\\()[]{}<>¿¡…\u00ad\u00b7\u2010\u2019\u2027$€+^\u200b\ufeff\n\t\x01\x1f\x85"
)
TEXT = st.lists(
    st.one_of(
        st.sampled_from(MARKS),
        st.sampled_from(
            ["www.", "http://", "don't", "हिन्दी", "中文", "👩\u200d👧", "e\u0301", "''", "__", "..."]
        ),
        st.characters(codec="utf-8"),
    ),
    max_size=20,
).map("".join)


@given(TEXT)
@settings(max_examples=400)
def test_words_are_those_of_machine_py(text: str) -> None:
    theirs = [(word.start, word.end) for word in LatinWordTokenizer().tokenize_as_ranges(text)]
    assert [(word.start, word.end) for word in tokenize(text)] == theirs


@given(TEXT)
def test_words_are_joined_as_machine_py_joins_them(text: str) -> None:
    words = [word.of(text) for word in tokenize(text)]
    assert detokenize(words) == LatinWordDetokenizer().detokenize(words)


@given(TEXT)
def test_words_are_in_order_apart_and_never_empty(text: str) -> None:
    end = 0
    for word in tokenize(text):
        assert end <= word.start < word.end <= len(text)
        end = word.end


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("En el principio.", "En|el|principio|."),
        ("see http://a.org/b?c=d, now", "see|http://a.org/b?c=d|,|now"),
        ("don't rock'n'roll dogs' 'tis", "don't|rock'n'roll|dogs'|'tis"),
        ("well-known 3.5 a=b x_y", "well-known|3.5|a=b|x_y"),
        ("wait ... what!!", "wait|...|what|!!"),
        ("wait...", "wait|.|.."),
        ("a\u200bb\ufeffc", "a|b|c"),
        ("«Venid»", "«|Venid|»"),
        ("", ""),
    ],
)
def test_words_of_plain_cases(text: str, words: str) -> None:
    """As the contract with Serval's clients tells the rules; behind a word the first mark of a run is still taken for
    one that may be inside of it, so it stands alone."""
    assert "|".join(word.of(text) for word in tokenize(text)) == words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["He", "said", ",", '"', "Come", "!", '"'], 'He said, "Come!"'),
        (["¿", "Qué", "?", "(", "a", "/", "b", ")", "$", "5"], "¿Qué? (a/b) $5"),
        ([], ""),
    ],
)
def test_words_become_text_again(words: list[str], text: str) -> None:
    assert detokenize(words) == text
