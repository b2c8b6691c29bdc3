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
    ("as in the paper, gamma .1", "the same without coupling", "the coupling, as printed"),
    ("encoders only", "the same without coupling", "a common initial head"),
    ("Sheaf-DMFL-Att", "encoders only", "the coupling, with our settings"),
    ("head averaging", "encoders only", "averages of heads"),
    ("encoders only", "local, twice the steps", "sharing encoders"),
    ("local, twice the steps", "local", "twice the compute"),
)
#: In the order of the page.
CONTROLS = tuple(
    Control(regime, arm, control, thing)
    for regime, pairs in {
        "tracking": (
            *_SHARING,
            ("as in the paper, gamma .23", "the same without coupling", "the coupling, as printed, gamma .23"),
            ("Sheaf-DMFL-Att", "frozen maps", "that maps learn"),
            ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
            ("sheaf diffusion (ours)", "head averaging", "maps, where heads mean the same"),
            ("head averaging, then tuned", "head averaging", "training alone at the end"),
            ("mean of averaged and tuned", "head averaging, then tuned", "the mean of both models"),
            ("head averaging", "local, twice the steps", "sharing encoders and heads"),
            ("DSGD", "head averaging", "one model per modality in the place of fusion"),
        ),
        "tracking_scarce": (*_SHARING, ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling")),
        "tracking_mirrored": (("Sheaf-DMFL-Att", "encoders only", "the coupling, with our settings"),),
        "tracking_permuted": (
            ("encoders only, aligned start", "encoders only", "a start that is common by beam"),
            ("Sheaf-DMFL-Att, aligned", "encoders only, aligned start", "the coupling along aligned maps"),
            ("head averaging, told the orders", "encoders only, aligned start", "averages of relabelled heads"),
            ("learned orders (ours)", "encoders only", "orders that are learned, and heads mixed by them"),
            ("learned orders (ours)", "local", "training together, told nothing"),
            ("learned orders (ours)", "encoders only, learned orders", "heads mixed, where orders are learned"),
            ("learned orders (ours)", "head averaging, told the orders", "learned in the place of told orders"),
            (
                "mean of diffused and tuned, learned orders (ours)",
                "local",
                "training together in personal models, told nothing",
            ),
            (
                "mean of diffused and tuned, learned orders (ours)",
                "mean of averaged and tuned",
                "learned orders, in personal models",
            ),
            (
                "mean of diffused and tuned, learned orders (ours)",
                "mean of encoders only and tuned",
                "learned orders and mixed heads, in personal models",
            ),
            (
                "mean of diffused and tuned, learned orders (ours)",
                "mean of encoders only and tuned, learned orders",
                "heads mixed by learned orders, in personal models",
            ),
        ),
        "blockage": _SHARING,
        "drones": _SHARING,
        "drones_occluded": (
            *_SHARING,
            ("Sheaf-DMFL-Att", "Sheaf-DMFL", "attention in the place of concatenation"),
            ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
        ),
        "drones_views": _SHARING,
        "drones_permuted": (
            ("encoders only, aligned start", "encoders only", "a start that is common by beam"),
            ("Sheaf-DMFL-Att, aligned", "encoders only, aligned start", "the coupling along aligned maps"),
            ("head averaging, told the orders", "encoders only, aligned start", "averages of relabelled heads"),
        ),
        "drones_sizes": (
            ("encoders only, aligned start", "encoders only", "a start that is common by beam"),
            ("Sheaf-DMFL-Att, aligned", "encoders only, aligned start", "the coupling along aligned maps"),
            (
                "averages of shared outputs",
                "encoders only, aligned start",
                "averages of the outputs that two heads share",
            ),
            (
                "mean of diffused and tuned, aligned (ours)",
                "mean of encoders only and tuned, aligned start",
                "averages of shared outputs, in personal models",
            ),
        ),
    }.items()
    for arm, control, thing in pairs
)


def overview_rows(ledger: Ledger, test_per_train: Mapping[str, float]) -> Iterator[str]:
    """Table of what decides everywhere: a row per thing praised, a column per regime that has both arms.

    Args:
        ledger: of all regimes.
        test_per_train: regime, in order -> see `difference`.
    """
    needed = {arm for pair in _SHARING for arm in pair[:2]}
    found = {name: ledger.of(name) for name in test_per_train}
    found = {name: scores for name, scores in found.items() if needed <= set(scores.arms)}
    heads = [f"`{name}` (n = {len(scores.values(_SHARING[0][0], ALL))})" for name, scores in found.items()]
    yield f"| What is praised | {' | '.join(heads)} |"
    yield "|---" * (1 + len(found)) + "|"
    for arm, control, thing in _SHARING:
        families = [_family(scores, arm, control, test_per_train[name]) for name, scores in found.items()]
        cells = [f"{one} {one.marked}" for family in families for one in family if one.group == ALL]
        yield f"| {thing} | {' | '.join(cells)} |"


def _family(scores: RegimeScores, arm: str, control: str, test_per_train: float) -> list[Difference]:
    """Differences of all groups, adjusted for their number."""
    return adjusted([difference(scores, arm, control, group, test_per_train) for group in scores.groups])


def control_rows(control: Control, ledger: Ledger, test_per_train: float) -> Iterator[str]:
    """A row of the table, once both arms have scores; p values are adjusted for the groups of the row."""
    scores = ledger.of(control.regime)
    named = f"| `{control.regime}` | {control.thing} | {control.arm} | {control.control} |"
    if not {control.arm, control.control} <= set(scores.arms):
        return
    family = _family(scores, control.arm, control.control, test_per_train)
    yield f"{named} {'; '.join(f'{one.group}: {one} {one.word}' for one in family)} |"
