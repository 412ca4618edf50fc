"""The terms of requests: lists that are kept, and pairs that come along."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from typing import Any

from npda.corpus.terms import Term
from npda.serving.engine.asks import Way
from npda.serving.errors import Refusal
from npda.serving.settings import Settings
from npda.serving.terms.learning import TermLearner, Tongue
from npda.serving.terms.lists import Entry, TermLists
from npda.terms.agreement import Agreement, Observed
from npda.terms.learning import rendered
from npda.terms.termbase import Terms

PATIENCE = 10.0  # seconds that a request waits for terms of its lists that are being learnt
_OPENED = 32  # lists that stay opened

logger = logging.getLogger(__name__)


class ServedTerms:
    """For one event loop."""

    def __init__(self, settings: Settings, lists: TermLists, learner: TermLearner) -> None:
        self.lists, self.learner = lists, learner
        self._settings = settings
        self._opened: OrderedDict[tuple[object, ...], Terms] = OrderedDict()
        self._learning: set[asyncio.Task[None]] = set()

    async def resolve(self, asked: Sequence[str] | Sequence[tuple[str, str]], way: Way) -> Terms:
        """What a request wants put in: names of lists, or pairs.

        Pairs are learnt before it goes on. Terms of lists that are still being learnt when its patience ends are left
        out, this once.
        """
        names = [each for each in asked if isinstance(each, str)]
        try:
            async with asyncio.timeout(self._settings.timeout):
                tongue = await self.learner.tongue(way)
                key = tuple(asked), tongue, self.lists.revision, self.learner.renderings.revision
                if (known := self._opened.get(key)) is not None:
                    self._opened.move_to_end(key)
                    return known
                terms = await asyncio.to_thread(self._named, names, way.model) if names else _pairs(asked)
                if (task := self._begin(tongue, terms)) is not None:
                    done, _ = await asyncio.wait([task], timeout=PATIENCE if names else None)
                    for each in done:
                        each.result()
        except TimeoutError:
            raise Refusal(504, "Learning the terms took longer than this server allows.", "terms", "timeout") from None
        revisions = self.lists.revision, self.learner.renderings.revision
        opened = await asyncio.to_thread(self._open, tongue, terms)
        if not self.learner.lacking(tongue, terms):
            # The same object for the same terms: requests that share it are looked after together.
            opened = self._opened.setdefault((tuple(asked), tongue, *revisions), opened)
            while len(self._opened) > _OPENED:
                self._opened.popitem(last=False)
        return opened

    def learn(self, name: str, model: str) -> None:
        """Begin to learn a list, so that the next request finds it ready."""

        async def work() -> None:
            tongue = await self.learner.tongue(Way(model))
            terms = await asyncio.to_thread(self._named, [name], model)
            if (task := self._begin(tongue, terms)) is not None:
                await task

        self._start(work())

    async def close(self) -> None:
        """Learn no more; what was learnt is kept."""
        tasks = list(self._learning)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def shown(self, entry: Entry, decoder: str) -> dict[str, Any]:
        """A line of a list with what is known of it. decoder: digest of the model's"""
        learnt = self.learner.renderings.shown(decoder, entry.sources)
        given = entry.renderings
        found = given if given is not None else learnt.renderings if learnt is not None else ()
        return {
            "source": entry.source,
            "target": entry.target,
            "source_plural": " | ".join(entry.source_plural),
            "target_plural": entry.target_plural,
            "like": entry.like,
            "renderings": [{"text": each.text, "purity": each.purity} for each in found],
            "contexts": learnt.contexts if learnt is not None else 0,
            "learnt": given is not None or learnt is not None,
        }

    def _named(self, names: Sequence[str], model: str) -> list[Term]:
        """Of two terms about one word that of the later list counts."""
        found: dict[tuple[str, bool], Term] = {}
        for name in names:
            entries = self.lists.entries(name)
            meant = self.lists.about(name).model
            if meant not in (None, model):
                raise Refusal(422, f"The list {name} is meant for the model {meant}, not for {model}.", "terms")
            found.update({term.key: term for entry in entries for term in entry.terms()})
        return list(found.values())

    def _begin(self, tongue: Tongue, terms: Sequence[Term]) -> asyncio.Task[None] | None:
        """Learn what is lacking, on behalf of all who may want it; None if nothing is."""
        lacking = self.learner.lacking(tongue, terms)
        if not lacking and not self._without_articles(tongue, self._rendered(tongue, terms)):
            return None

        async def work() -> None:
            await self.learner.learn(tongue, lacking)
            if left := self._without_articles(tongue, self._rendered(tongue, terms)):
                await self.learner.learn_articles(tongue, left)

        return self._start(work())

    def _without_articles(self, tongue: Tongue, terms: Sequence[Term]) -> list[Term]:
        if not (tongue.reads and tongue.general):
            return []
        return [
            term
            for term in terms
            if term.like and not term.plural and term.renderings
            if self.learner.renderings.observed(tongue, term.sources, term.like) is None
        ]

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._learning.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._learning.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("terms could not be learnt: %s", error)

    def _rendered(self, tongue: Tongue, terms: Sequence[Term]) -> list[Term]:
        numbers = {(term.sources, term.plural) for term in terms}
        found = []
        for term in terms:
            learnt = self.learner.renderings.of(tongue, term.sources) if term.renderings is None else None
            found.append(rendered(term, learnt, numbers) if learnt is not None else term)
        return found

    def _open(self, tongue: Tongue, terms: Sequence[Term]) -> Terms:
        ready = self._rendered(tongue, terms)
        observed: list[Observed] = []
        for term in ready:
            if term.like and not term.plural:
                observed += self.learner.renderings.observed(tongue, term.sources, term.like) or []
        return Terms(ready, tongue.written or None, Agreement(observed))


def _pairs(asked: Sequence[Any]) -> list[Term]:
    found = {source: Term((source,), target) for source, target in asked}
    return list(found.values())
