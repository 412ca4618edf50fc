"""The verdict's figures against scores and counts of their own; a warning where something is worse, and only there."""

import json

from npda.adapt.verdict import Side, judge, keep_translations
from npda.evaluation.faults import StoreText, count_faults
from npda.evaluation.scores import bleu, chrf
from npda.evaluation.significance import compare

REFERENCES = [f"The cat number {n} sleeps on the warm roof tonight ." for n in range(20)]
STORE = StoreText(["There is an oil leak in the engine", "Thank you"])


def judged(adapted: list[str], alone: list[str] = REFERENCES, side: Side = "domain"):
    return judge(side, "speech", alone, adapted, REFERENCES, STORE, samples=100)


def test_figures_are_those_of_the_metrics():
    adapted = ["The cat sleeps .", "", "There is an oil leak in the engine", *REFERENCES[3:]]
    found = judged(adapted)
    assert found.sentences == 20
    assert found.adapted.bleu == bleu(adapted, REFERENCES).value
    assert found.adapted.chrf == chrf(adapted, REFERENCES).value
    assert found.adapted.faults == count_faults(adapted, REFERENCES, STORE)
    assert found.alone.faults == count_faults(REFERENCES, REFERENCES, STORE)
    assert [*found.comparisons] == compare(adapted, REFERENCES, REFERENCES, samples=100)
    record = json.loads(json.dumps(found.record()))
    assert record["adapted"]["faults"]["copies"] == 1
    assert record["comparisons"][0]["delta"] == found.comparisons[0].delta
    assert record["warnings"] == found.warnings


def test_everything_that_is_worse_is_said():
    cut = ["The cat sleeps .", "", "There is an oil leak in the engine", "one " * 9, *REFERENCES[4:]]
    said = " ".join(judged(cut, side="general").warnings)
    assert said.count("Warning: general sentences: ") == 8
    for words in (
        "BLEU falls from 100.00 to",
        "chrF2 falls from 100.00 to",
        "0.90 words for each of the references, 1.00 by the model alone",
        "2 of 20 outputs are cut short (under 60 % of the reference's words), 0 of the model alone",
        "1 of 20 outputs are empty, 0",
        "1 of 20 outputs are caught in a loop, 0",
        "1 of 20 outputs are sentences of the store that the reference is not, 0",
        "1 of 20 outputs are taken from the store, with nothing of the reference in them, 0",
    ):
        assert words in said


def test_what_is_better_or_equal_needs_no_warning():
    assert judged(REFERENCES).warnings == []
    worse = ["", *REFERENCES[1:]]
    assert judged(REFERENCES, alone=worse).warnings == []
    assert judged(worse, alone=worse).warnings == []
    slightly = [REFERENCES[0].replace("warm", "cold"), *REFERENCES[1:]]
    assert any("which may be chance" in line for line in judged(slightly).warnings)


def test_translations_are_kept_a_line_each(tmp_path):
    keep_translations(tmp_path / "translations", "domain", {"alone": ["a\nb", ""], "references": ["c", "d"]})
    assert (tmp_path / "translations" / "domain.alone.txt").read_text(encoding="utf-8") == "a b\n\n"
    assert (tmp_path / "translations" / "domain.references.txt").read_text(encoding="utf-8") == "c\nd\n"
