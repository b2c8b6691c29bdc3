"""For every gain that somebody could claim: the arm that lacks only the thing praised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ledger import ALL, Ledger, RegimeScores  # a script beside its modules
from verdicts import Difference, adjusted, difference


@dataclass(frozen=True, slots=True)
class Control:
    """A comparison that decides what a gain is due to.

    Attributes:
        regime: where.
        arm: what has the thing.
        control: what lacks only that.
        thing: what it is.
    """

    regime: str
    arm: str
    control: str
    thing: str


#: What decides wherever heads mean the same at all clients.
_SHARING = (
    ("as in the paper, gamma .1", "the same without coupling", "the coupling, as printed, gamma .1"),
    ("as in the paper, gamma .23", "the same without coupling", "the coupling, as printed, gamma .23"),
    ("encoders only", "the same without coupling", "a common initial head"),
    ("Sheaf-DMFL-Att", "encoders only", "the coupling, with our settings"),
    ("head averaging", "encoders only", "averages of heads"),
    ("encoders only", "local, twice the steps", "sharing encoders"),
    ("local, twice the steps", "local", "twice the compute"),
)
_PROTOTYPES = ("class prototypes", "class prototypes, not coupled", "heads coupled, beside class prototypes")
_INDEPENDENT = (
    "as in the paper, gamma .23",
    "head averaging, independent heads",
    "the coupling as printed in the place of averages, from independent heads",
)
_GROUPS = ("group averaging", "head averaging", "averages over a whole group, with its bytes")
_SKY = (*_SHARING, _INDEPENDENT, _PROTOTYPES, _GROUPS)
#: What decides where base stations number their beams in orders of their own: what those gain that are told,
_TOLD = (
    ("encoders only, aligned start", "encoders only", "a start that is common by beam"),
    ("Sheaf-DMFL-Att, aligned", "encoders only, aligned start", "the coupling along aligned maps"),
    ("head averaging, told the orders", "encoders only, aligned start", "averages of relabelled heads"),
)
#: those that find the orders out,
_LEARNED = (
    ("learned orders (ours)", "encoders only", "orders that are learned, and heads mixed by them"),
    ("encoders only, learned orders", "encoders only", "orders that are learned"),
    ("learned orders (ours)", "encoders only, learned orders", "heads mixed, where orders are learned"),
    ("learned orders (ours)", "local, twice the steps", "training together, told nothing"),
    (
        "mean of diffused and tuned, learned orders (ours)",
        "mean of encoders only and tuned",
        "learned orders and mixed heads, in personal models",
    ),
    (
        "mean of diffused and tuned, learned orders (ours)",
        "local, twice the steps",
        "training together in personal models, told nothing",
    ),
)
#: against those that are told all; where sweeps are inputs, too, these have to be sorted as well as heads,
_OR_TOLD = ("learned orders (ours)", "head averaging, told the orders", "learned in the place of told orders")
_OR_TABLE = ("learned orders (ours)", "head averaging, table of angles", "learned in the place of told orders")
#: and those, with codebooks of one size, that go by numbers.
_NUMBERS = (
    ("head averaging", "encoders only", "averages of heads by number"),
    (
        "mean of diffused and tuned, learned orders (ours)",
        "mean of averaged and tuned",
        "learned orders, in personal models",
    ),
)
#: Name of a table at the top of the page -> what is praised in its rows.
OVERVIEWS = {
    "sharing": [thing for *_, thing in _SHARING],
    "orders": [thing for *_, thing in (*_LEARNED, _OR_TOLD)],
}
#: In the order of the page.
CONTROLS = tuple(
    Control(regime, arm, control, thing)
    for regime, pairs in {
        "tracking": (
            *_SHARING,
            ("Sheaf-DMFL-Att", "frozen maps", "that maps learn"),
            ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
            _PROTOTYPES,
            _GROUPS,
            ("sheaf diffusion (ours)", "head averaging", "maps, where heads mean the same"),
            ("head averaging, then tuned", "head averaging", "training alone at the end"),
            ("mean of averaged and tuned", "head averaging, then tuned", "the mean of both models"),
            ("head averaging", "local, twice the steps", "sharing encoders and heads"),
            ("DSGD", "head averaging", "one model per modality in the place of fusion"),
        ),
        "tracking_scarce": (
            *_SHARING,
            ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
            _PROTOTYPES,
            _GROUPS,
        ),
        "tracking_mirrored": (("Sheaf-DMFL-Att", "encoders only", "the coupling, with our settings"),),
        "tracking_permuted": (
            *_TOLD,
            *_LEARNED,
            _OR_TABLE,
            *_NUMBERS,
            ("learned orders (ours)", "head averaging, told the orders", "learned, not told for heads"),
            (
                "mean of diffused and tuned, learned orders (ours)",
                "mean of encoders only and tuned, learned orders",
                "heads mixed by learned orders, in personal models",
            ),
        ),
        "blockage": (*_SHARING, _PROTOTYPES, _GROUPS),
        "drones": _SKY,
        "drones_occluded": (
            *_SKY,
            ("Sheaf-DMFL-Att", "Sheaf-DMFL", "attention in the place of concatenation"),
            ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
        ),
        "drones_views": _SKY,
        "drones_permuted": (*_TOLD, *_LEARNED, _OR_TOLD, *_NUMBERS),
        "drones_sizes": (*_TOLD, *_LEARNED, _OR_TOLD),
        "drones_sizes_scarce": (*_TOLD, *_LEARNED, _OR_TOLD),
    }.items()
    for arm, control, thing in pairs
)


def overview_rows(name: str, ledger: Ledger, test_per_train: Mapping[str, float]) -> Iterator[str]:
    """Table of what decides everywhere: a row per thing praised, a column per regime that has some of their arms.

    Args:
        name: key of `OVERVIEWS`.
        ledger: of all regimes.
        test_per_train: regime, in order -> see `difference`.
    """
    things = OVERVIEWS[name]
    columns: dict[str, list[str]] = {}
    for regime, ratio in test_per_train.items():
        controls = {one.thing: one for one in CONTROLS if one.regime == regime}
        if not {*things} <= {*controls}:
            continue
        families = [family_of_control(controls[thing], ledger, ratio) for thing in things]
        found = [next((one for one in family if one.group == ALL), None) for family in families]
        n = max((one.n for one in found if one), default=0)
        if n:
            columns[f"`{regime}` (n = {n})"] = [_cell(one, n) for one in found]
    if not columns:
        return
    yield f"| What is praised | {' | '.join(columns)} |"
    yield "|---" * (1 + len(columns)) + "|"
    for thing, *row in zip(things, *columns.values(), strict=True):
        yield f"| {thing} | {' | '.join(row)} |"


def _cell(one: Difference | None, n: int) -> str:
    """Difference and word, with its number of seeds where that is not the one of the column."""
    if one is None:
        return "not run"
    return f"{one} {one.marked}" + ("" if one.n == n else f" (n = {one.n})")


def family_of(scores: RegimeScores, arm: str, control: str, test_per_train: float) -> list[Difference]:
    """Differences of all groups, adjusted for their number."""
    return adjusted([difference(scores, arm, control, group, test_per_train) for group in scores.groups])


def family_of_control(control: Control, ledger: Ledger, test_per_train: float) -> list[Difference]:
    """Differences of all groups, adjusted for their number; empty until both arms have scores."""
    scores = ledger.of(control.regime)
    if not {control.arm, control.control} <= {*scores.arms}:
        return []
    return family_of(scores, control.arm, control.control, test_per_train)


def control_rows(control: Control, ledger: Ledger, test_per_train: float) -> Iterator[str]:
    """A row of the table, once both arms have scores; p values are adjusted for the groups of the row."""
    if family := family_of_control(control, ledger, test_per_train):
        named = f"| `{control.regime}` | {control.thing} | {control.arm} | {control.control} |"
        yield f"{named} {'; '.join(f'{one.group}: {one} {one.word}' for one in family)} |"
