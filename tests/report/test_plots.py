"""Pictures: one λ × T map for the file and for the page, colours of the page, ids of their own."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_up_pages import HOSTILE, LAMBDAS, SHOWN, TEMPERATURES, tuning
from page_reader import Page

from npda.report.page import static
from npda.report.plots import PALETTE, inline, svg, system_colour
from npda.report.tuning_plot import plot_tuning, tuning_svg


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("}text")]


def test_the_map_shows_the_grid_and_the_decoded_points():
    shown = texts(tuning_svg(tuning()))
    assert {f"{value:g}" for value in (*LAMBDAS, *TEMPERATURES)} <= set(shown)
    assert {"61.2", "58.5"} <= set(shown)
    assert "57.0" not in shown  # of another k
    assert {"temperature T", "λ", "log-likelihood per token"} <= set(shown)


def test_the_map_as_a_file(tmp_path: Path):
    plot_tuning(tuning(), tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_a_picture_takes_the_colours_of_the_page():
    picture = inline(tuning_svg(tuning()), "map", "λ × T")
    assert "var(--card)" in picture
    assert not [colour for colour in PALETTE.values() if colour in picture]
    day = re.findall(r":root \{(.*?)\}", static("page.css"), re.DOTALL)[0]
    assert dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", day)).items() >= PALETTE.items()


def test_two_pictures_share_no_id():
    picture = tuning_svg(tuning())
    assert picture == tuning_svg(tuning())  # byte for byte, run after run
    page = Page(inline(picture, "one", "") + inline(picture, "two", ""))
    ids = page.all("id")
    assert len(ids) == len(set(ids)) > 10
    references = [link.removeprefix("#") for link in page.all("xlink:href")]
    references += re.findall(r"url\(#([^)]*)\)", " ".join(page.all("clip-path")))
    assert references
    assert set(references) <= set(ids)


@pytest.mark.filterwarnings("ignore:Glyph")
def test_names_in_a_picture_are_texts():
    def draw(axes) -> None:
        axes.set_xlabel(HOSTILE)

    page = Page(inline(svg(draw, HOSTILE), HOSTILE, HOSTILE))
    assert not page.tags & {"script", "img"}
    assert page.find("svg")[0].attributes["aria-label"] == SHOWN
    assert SHOWN in page.texts["text"]


def test_colours_of_systems():
    names = ("NPDA-kNN-ST", "NPDA-kNN-ST+", "kNN-MT", "E2E-ST-Base")
    assert [system_colour(name) for name in names] == [PALETTE[c] for c in ("store", "store", "model", "both")]
