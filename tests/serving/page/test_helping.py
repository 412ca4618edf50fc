"""What helps a translation: stores, corrections, lists of terms, files that become either."""

import pytest

from npda.corpus.mini.grammar import sentences

FLOOR = "parliament-test-00043"  # Our party has the floor on this new paper.
WET = "general-test-00079"  # The floor is wet because my daughter cleans the school.
STATE = "parliament-test-00001"  # The state must adopt this second motion.


def adapted(page) -> str:
    read = "words => words.map(word => word.firstChild.data ?? '').join(' ').trim()"
    return page.locator(".adapted button.word").evaluate_all(read)


def translate(page, clip: str) -> None:
    page.click(f"[data-clip={clip}]")
    page.wait_for_selector(".result")


def test_stores_are_picked(visit):
    page = visit()
    page.get_by_label("None", exact=True).check()
    translate(page, FLOOR)
    assert page.locator(".pair").count() == 0
    assert "Boden" in page.inner_text(".text")
    page.get_by_label("parliament").check()
    assert page.get_by_label("These only").is_checked()
    page.click("#again")
    page.wait_for_selector(".pair")
    assert "Wort" in adapted(page)


def test_a_store_tells_about_itself(visit):
    page = visit()
    page.get_by_text("About parliament").click(force=True)
    about = page.locator("#stores .about")
    assert "debates" in about.inner_text()
    assert "11.9 → 83.7 BLEU" in about.inner_text()
    assert "read only" in about.inner_text()


def test_a_sentence_is_corrected_where_it_stands(visit):
    page = visit()
    translate(page, STATE)
    wanted = "Der Staat soll diesen zweiten Vorschlag annehmen."
    assert adapted(page) != wanted
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_label("How it should read").fill(wanted)
    page.get_by_role("button", name="Save and translate again").click()
    page.get_by_text("Saved in corrections.").wait_for()
    page.locator(".adapted", has_text="Vorschlag").wait_for()
    assert adapted(page) == wanted
    assert "corrections" in page.inner_text("h4 .badge >> nth=0")
    page.get_by_text("About corrections").click(force=True)
    page.get_by_role("button", name=f"Remove the correction “{wanted}”").click()
    page.wait_for_selector(".corrections li", state="detached")


def test_a_glossary_is_used(visit, drop, tmp_path):
    page = visit()
    (tmp_path / "Our words.csv").write_text("source,target\nschool,Lehranstalt\n")
    drop(page, "#add-drop", tmp_path / "Our words.csv")
    form = page.locator(".adding")
    assert form.get_by_label("a list of terms").is_checked()
    assert form.get_by_label("Name").input_value() == "Our-words"
    form.get_by_role("button", name="Add").click()
    use = page.get_by_label("Our-words", exact=True)
    use.wait_for()
    assert use.is_checked()
    translate(page, WET)
    term = page.locator(".adapted button.by-term", has_text="Lehranstalt")
    assert term.count() == 1
    term.click()
    assert "A list of terms wants “Lehranstalt” for “school”; the translation had “Schule”" in page.inner_text(".why")
    use.uncheck()
    page.click("#again")
    page.locator(".adapted", has_text="Schule").wait_for()
    page.get_by_text("Terms of Our-words").click(force=True)
    page.get_by_role("button", name="Delete this list Our-words").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("Our-words", exact=True).wait_for(state="detached")


def test_a_list_is_written_on_the_page(visit):
    page = visit()
    page.get_by_text("New list").click()
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Term", exact=True).fill("party")
    page.get_by_role("textbox", name="Translation").fill("Partei")
    page.keyboard.press("Enter")
    page.get_by_label("mine", exact=True).wait_for()
    page.get_by_text("Terms of mine").click(force=True)
    page.locator("#terms .about").get_by_text("party → Partei").wait_for()
    page.get_by_role("button", name="Remove party").click()
    page.locator("#terms .about").get_by_text("party → Partei").wait_for(state="detached")
    page.get_by_role("button", name="Delete this list mine").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("mine", exact=True).wait_for(state="detached")


def test_sentences_become_a_store_while_one_watches(visit, tmp_path):
    page = visit()
    known = sentences("parliament", "dev", "de", 0)[:40]
    rows = ["src_text\ttgt_text", *(f"{pair.src_text}\t{pair.tgt_text}" for pair in known)]
    (tmp_path / "minutes.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    page.set_input_files("#add-file", tmp_path / "minutes.tsv")
    form = page.locator(".adding")
    assert form.get_by_label("a new store").is_checked()
    form.get_by_label("Licence").fill("CC0")
    form.get_by_role("button", name="Add").click()
    page.locator(".job", has_text="minutes").wait_for()
    page.locator(".job.done", has_text="minutes").wait_for()
    page.get_by_text("About minutes").click(force=True)
    assert "CC0" in page.inner_text("#stores")
    page.get_by_role("button", name="Delete this store minutes").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_label("minutes", exact=True).wait_for(state="detached")


@pytest.mark.parametrize("content", ["only one column\n", ""])
def test_a_file_that_is_none_is_a_sentence(visit, tmp_path, content):
    page = visit()
    (tmp_path / "bad.tsv").write_text(content)
    page.set_input_files("#add-file", tmp_path / "bad.tsv")
    page.locator(".adding").get_by_label("a new store").check()
    page.locator(".adding").get_by_role("button", name="Add").click()
    page.locator("#trouble", has_text="bad.tsv").wait_for()
    assert page.locator(".adding").count() == 1  # nothing has to be typed again
