"""What must come back unchanged, and how it is found."""

import itertools
from unittest.mock import patch

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.text import protect
from nllb_predictor.text.protect import protected_spans
from nllb_predictor.text.scripts import foreign_share


def found(text: str, *terms: str) -> list[str]:
    return [each.span.of(text) for each in protected_spans(text, terms)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dear %1$s, {count} letters for %2$d days", ["%1$s", "{count}", "%2$d"]),
        ("{{name}} has ${sum} and %(n)s, %{x}, {0:.2f}", ["{{name}}", "${sum}", "%(n)s", "%{x}", "{0:.2f}"]),
        ("100% sure, 5% of it", []),
        (
            "See https://x.org/a?b=c. Or www.x.org, or a.b@c.de!",
            ["https://x.org/a?b=c", "www.x.org", "a.b@c.de"],
        ),
        ("(http://x.org/a)", ["http://x.org/a"]),
        (r"\p \v 3 the \nd Lord\nd* was", [r"\p", r"\v 3", r"\nd", r"\nd*"]),
        (r"light\f + \ft a note \f* was", [r"\f + \ft a note \f*"]),
        (
            'He <b>went</b> <x1/>&amp; <a href="y">on</a><!-- no -->',
            ["<b>", "</b>", "<x1/>", "&amp;", '<a href="y">', "</a>", "<!-- no -->"],
        ),
        ("2 < 3 and 4 > 1", []),
        ("Nice 🎉 team 👩‍👩‍👧 ❤️ 👍🏽 🇪🇸🇫🇷 1️⃣ ☺", ["🎉", "👩‍👩‍👧", "❤️", "👍🏽", "🇪🇸", "🇫🇷", "1️⃣", "☺"]),
        ("© 2026 Acme™, 3 ‼", []),
    ],
)
def test_what_is_found_without_being_named(text: str, expected: list[str]) -> None:
    assert found(text) == expected


def test_terms_are_whole_words_and_the_longest_goes_first() -> None:
    text = "Acmeco and Acme, Acme Inc. and Acme Incorporated; Acme"
    assert found(text, "Acme", "Acme Inc.", "Acme Inc") == ["Acme", "Acme Inc.", "Acme", "Acme"]


def test_terms_of_scripts_without_spaces_need_no_spaces_around() -> None:
    assert found("《鹰》与鸡鹰", "鹰") == ["鹰", "鹰"]


def test_a_term_that_cuts_a_placeholder_leaves_it_whole_and_one_that_holds_it_takes_it() -> None:
    assert found("see {count} now", "count") == ["{count}"]
    assert found("see {count} now", "{count} now") == ["{count} now"]


MARKS = st.one_of(st.sampled_from(r"\{}<>%$/&;@.:1ab f*" + "🎉\u200d\ufe0f"), st.characters(codec="utf-8"))
PIECES = ("www.", "ftp://", "mailto:/", "x@y.z", "1\ufe0f\u20e3", "🇪", "%d", "&a;", "{a}", "\\p ", "<a>", "☺")


@settings(deadline=None)
@given(
    st.text(MARKS),
    st.lists(st.text(min_size=1, max_size=3)),
)
def test_spans_are_in_order_and_apart_and_never_blank(text: str, terms: list[str]) -> None:
    spans = [each.span for each in protected_spans(text, terms)]
    assert all(span.of(text).strip() for span in spans)
    assert all(before.end <= after.start for before, after in itertools.pairwise(spans))


@settings(deadline=None, max_examples=300)
@given(st.lists(st.one_of(st.sampled_from(PIECES), MARKS), max_size=4).map("".join))
def test_the_quick_look_misses_nothing_that_the_patterns_find(text: str) -> None:
    with patch.object(protect, "SIGN", regex.compile("")):
        all_patterns = protected_spans(text)
    assert protected_spans(text) == all_patterns


@pytest.mark.parametrize(
    ("text", "code", "share"),
    [
        ("Y él se fué 2.", "spa_Latn", 0.0),
        ("И ушёл", "spa_Latn", 1.0),
        ("И ab", "srp_Cyrl", 2 / 3),
        ("漢字かなカナ", "jpn_Jpan", 0.0),
        ("漢字한국", "kor_Hang", 0.0),
        ("天下", "zho_Hans", 0.0),
        ("12 !", "spa_Latn", 0.0),
        ("abc", "spa", 0.0),
        ("abc", "xyz_Qaaa", 0.0),
    ],
)
def test_letters_of_another_script(text: str, code: str, share: float) -> None:
    assert foreign_share(text, code) == pytest.approx(share)
