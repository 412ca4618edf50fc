"""Cues against ones cut by hand, and what must hold of all of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npda.subtitles import LINE, LINES, LONGEST, cues

SPEECH = (
    "Guten Morgen, meine Damen und Herren. Ich danke Ihnen, dass Sie so früh gekommen sind! "
    "Heute sprechen wir über den Antrag der Kommission, der gestern angenommen wurde."
)


def shown(start: float, end: float, text: str) -> list[tuple[float, float, str]]:
    return [(round(cue.start, 2), round(cue.end, 2), cue.text) for cue in cues(start, end, text)]


def test_what_fits_is_one_cue_of_one_line_or_two():
    assert shown(3, 9.5, "Das Wort hat die Fraktion.") == [(3, 9.5, "Das Wort hat die Fraktion.")]
    assert shown(0, 5, "Ich danke Ihnen dafür, dass Sie heute so früh gekommen sind.") == [
        (0, 5, "Ich danke Ihnen dafür, dass Sie\nheute so früh gekommen sind.")
    ]


def test_a_long_segment_is_cut_at_punctuation_and_gets_time_by_its_characters():
    assert "".join(text.replace("\n", " ") + " " for _, _, text in shown(10, 26.7, SPEECH)).strip() == SPEECH
    # 167 characters in 16.7 seconds: a tenth of a second each, and 70 of them in seven seconds.
    assert shown(10, 26.7, SPEECH) == [
        (10, 15.5, "Guten Morgen, meine Damen\nund Herren. Ich danke Ihnen,"),
        (15.5, 18.7, "dass Sie so früh gekommen sind!"),
        (18.7, 23.8, "Heute sprechen wir über\nden Antrag der Kommission,"),
        (23.8, 26.7, "der gestern angenommen wurde."),
    ]


def test_a_long_text_is_cut_though_it_is_said_quickly():
    assert [text for _, _, text in shown(0, 6, " ".join(["wort"] * 30))] == [
        "wort wort wort wort wort wort wort wort\nwort wort wort wort wort wort wort"
    ] * 2


def test_few_words_over_a_long_time_stay_together():
    assert shown(0, 20, "Meine Damen und Herren") == [(0, 20, "Meine Damen und Herren")]


def test_closing_marks_stay_with_their_sentence():
    texts = [text for _, _, text in shown(0, 12, "Sie sagte: »Das geht nicht.« Dann ging sie (endlich!) nach Hause.")]
    assert texts == ["Sie sagte: »Das geht nicht.«", "Dann ging sie (endlich!) nach Hause."]


def test_numbers_and_narrow_spaces_are_not_cut():
    """24 of 41 characters, the space after the full stop included, in 14 seconds."""
    assert shown(0, 14, "Es waren 3,5 Millionen. Oui\u202f! C'est tout.") == [
        (0, 8.2, "Es waren 3,5 Millionen."),
        (8.2, 14, "Oui\u202f! C'est tout."),
    ]


def test_chinese_has_no_spaces_and_wide_letters():
    found = shown(0, 9, "今天天气很好，我们去公园散步吧。" * 4)
    assert "".join(text.replace("\n", "") for _, _, text in found) == "今天天气很好，我们去公园散步吧。" * 4
    assert all(len(line) <= LINE // 2 for _, _, text in found for line in text.split("\n"))


@pytest.mark.parametrize("text", ["", " \n\t", "\u2028"])
def test_without_text_there_is_no_cue(text: str):
    assert shown(0, 1, text) == []


@given(
    st.floats(0, 40_000),
    st.floats(0, 60),
    st.text(st.sampled_from("abcdefgh .,!?»\n\u2028–好，"), min_size=0, max_size=400),
)
def test_no_letter_is_lost_no_line_too_long_and_no_time_left_out(start: float, length: float, text: str):
    found = list(cues(start, start + length, text))
    squeezed = "".join(text.split())
    assert "".join("".join(cue.text.split()) for cue in found) == squeezed
    if not squeezed:
        return
    assert found[0].start == start
    assert found[-1].end == pytest.approx(start + length)
    assert all(a.end == b.start and a.start <= a.end for a, b in pairwise(found))
    for cue in found:
        lines = cue.text.split("\n")
        assert len(lines) <= LINES
        assert all(line.strip() and len(line) <= LINE for line in lines)


def test_cues_are_not_longer_than_allowed_where_punctuation_lets_them():
    assert all(cue.end - cue.start <= LONGEST for cue in cues(0, 60, "Ja, das ist gut. " * 20))
