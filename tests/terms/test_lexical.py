"""IBM Model 1 against the loops of its definition."""

from collections import defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npda.terms.lexical import LexicalTable

NULL = object()
PAIRS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcd"), max_size=4), st.lists(st.sampled_from("wxyz"), max_size=4)), max_size=5
)


def brute_force(pairs, rounds):
    """t(target | source) by EM as in Brown et al. (1993), from a flat start."""
    t = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        counts, totals = defaultdict(float), defaultdict(float)
        for source, target in pairs:
            for y in target:
                weights = [t[x, y] for x in (NULL, *source)]
                for x, weight in zip((NULL, *source), weights, strict=True):
                    counts[x, y] += weight / sum(weights)
                    totals[x] += weight / sum(weights)
        t = {(x, y): count / totals[x] for (x, y), count in counts.items()}
    return t


@settings(max_examples=50)
@given(PAIRS, st.integers(1, 4))
def test_posteriors_are_those_of_the_definition(pairs, rounds):
    table, t = LexicalTable(pairs, rounds), brute_force(pairs, rounds)
    for source, target in pairs:
        found = table.posteriors(source, target)
        assert found.shape == (len(target), len(source))
        for row, y in zip(found, target, strict=True):
            scores = [t[x, y] for x in (NULL, *source)]
            np.testing.assert_allclose(row, np.array(scores[1:]) / sum(scores), atol=1e-12)


def test_what_was_never_seen_is_nobodys():
    table = LexicalTable([(["a"], ["x"])])
    np.testing.assert_array_equal(table.posteriors(["b"], ["x", "y"]), np.zeros((2, 1)))
    np.testing.assert_array_equal(LexicalTable([]).posteriors(["a"], ["x"]), np.zeros((1, 1)))


def test_words_that_go_together_find_each_other():
    table = LexicalTable(
        [(["das", "haus"], ["the", "house"]), (["das", "buch"], ["the", "book"]), (["haus"], ["house"])]
    )
    assert table.posteriors(["das", "haus"], ["the", "house"]).argmax(axis=1).tolist() == [0, 1]
