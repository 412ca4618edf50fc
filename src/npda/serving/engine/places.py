"""How much may wait."""

from __future__ import annotations


class Places:
    """The places of a bounded queue. Who has been let in may take more of them than there are."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def all_taken(self) -> bool:
        return self.taken >= self.most

    @property
    def scarce(self) -> bool:
        """Whether what is left should be left to others."""
        return 2 * self.taken >= self.most

    def take(self) -> Place:
        self.taken += 1
        return Place(self)


class Place:
    """left: whether it was given back, which happens once"""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.left = False

    def leave(self) -> None:
        if not self.left:
            self.left = True
            self._places.taken -= 1
