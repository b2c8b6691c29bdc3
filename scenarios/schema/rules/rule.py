"""The form of a rule about fields that do not go together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

#: What a rule is about: the fields of a scenario, perhaps with its graph or with options of the command line.
S = TypeVar("S")
#: A case in which a rule is broken: values by the names that its sentence has for them.
Case = Mapping[str, object]
#: Whether a rule is broken, or every case in which it is.
Cases = bool | Iterable[Case]


@dataclass(frozen=True, slots=True)
class Rule(Generic[S]):
    """A combination that cannot work.

    Attributes:
        field: that the user can change; where several can cure it, one of them.
        broken: in which cases a subject breaks it.
        sentence: what is wrong and what to do, as `str.format` takes it: `{s}` is the subject, other names are the
            values of a case.
    """

    field: str
    broken: Callable[[S], Cases]
    sentence: str

    def complaints(self, subject: S) -> Iterator[str]:
        """One sentence for every case."""
        cases = self.broken(subject)
        if isinstance(cases, bool):
            cases = [{}] if cases else []
        for values in cases:
            yield self.sentence.format(s=subject, **values)
