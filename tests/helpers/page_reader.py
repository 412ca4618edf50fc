"""An HTML page as a browser takes it: elements and where they stand, attributes, texts."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser

VOID = ("meta", "br", "hr", "img", "link", "input", "base")


@dataclass(frozen=True)
class Element:
    """path: the elements around it, outermost first"""

    tag: str
    attributes: dict[str, str]
    path: tuple[Element, ...]

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())


class Page(HTMLParser):
    """Fails where tags do not match. texts: by the tag that holds them"""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[Element] = []
        self._shown: list[str] = []
        self.feed(source)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag, attrs):
        self._shown += [" "] * (tag in ("td", "th", "li", "dt", "dd"))
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, attributes, tuple(self._open)))

    def handle_endtag(self, tag):
        assert self._open.pop().tag == tag

    def handle_data(self, data):
        tag = self._open[-1].tag if self._open else ""
        self.texts.setdefault(tag, []).append(data)
        if tag not in ("script", "style", "title"):
            self._shown.append(data)

    @property
    def tags(self) -> set[str]:
        return {element.tag for element in self.elements}

    @property
    def visible(self) -> str:
        """All texts that people read, white space as a browser shows it."""
        return " ".join("".join(self._shown).split())

    def find(self, tag: str) -> list[Element]:
        return [element for element in self.elements if element.tag == tag]

    def all(self, attribute: str) -> list[str]:
        return [element.attributes[attribute] for element in self.elements if attribute in element.attributes]

    def text(self, tag: str) -> str:
        return "".join(self.texts.get(tag, ()))


def check_stands_alone(page: Page) -> None:
    """It loads nothing, runs nothing that came with a text, and every link inside it leads somewhere."""
    assert not page.tags & {"link", "img", "image", "iframe", "object", "embed", "form", "base", "audio", "video"}
    assert not page.all("src")
    assert not [name for element in page.elements for name in element.attributes if name.startswith("on")]
    assert "@import" not in page.text("style")
    assert "url(" not in page.text("style")
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    inside = [link for name in ("href", "xlink:href") for link in page.all(name) if link.startswith("#")]
    assert {link.removeprefix("#") for link in inside} <= set(ids)
    assert not [link for link in page.all("href") if ":" in link or link.startswith("/")]
