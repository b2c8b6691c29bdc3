"""For every gain that somebody could claim: the arm that lacks only the thing praised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regimes import REGIMES, SEARCHES, comparison_of  # a script beside its modules


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


_COUPLING = ("Sheaf-DMFL-Att", "encoders only", "the coupling, with our settings")
_AVERAGES = ("head averaging", "encoders only", "averages of heads")
_TWICE = ("local, twice the steps", "local", "twice the compute")
#: Arms that share encoders against one that trains alone, with as many steps and with twice as many.
_ALONE = tuple(
    (arm, control, f"{thing}, over {steps}")
    for arm, thing in (
        ("encoders only", "sharing encoders, common initial heads"),
        ("the same without coupling", "sharing encoders, independent heads"),
        ("as in the paper, gamma .1", "the method as printed, gamma .1"),
        ("as in the paper, gamma .23", "the method as printed, gamma .23"),
    )
    for control, steps in (("local", "as many steps"), ("local, twice the steps", "twice the steps"))
)
#: What decides wherever heads mean the same at all clients.
_SHARING = (
    ("as in the paper, gamma .1", "the same without coupling", "the coupling, as printed, gamma .1"),
    ("as in the paper, gamma .23", "the same without coupling", "the coupling, as printed, gamma .23"),
    ("as in the paper, gamma .23", "as in the paper, gamma .1", "gamma .23 in the place of .1"),
    ("encoders only", "the same without coupling", "a common initial head"),
    _COUPLING,
    _AVERAGES,
    *_ALONE,
    _TWICE,
)
_PROTOTYPES = ("class prototypes", "class prototypes, not coupled", "heads coupled, beside class prototypes")
_INDEPENDENT = (
    ("head averaging, independent heads", "the same without coupling", "averages of heads that start independently"),
    (
        "as in the paper, gamma .23",
        "head averaging, independent heads",
        "the coupling as printed in the place of averages, from independent heads",
    ),
    (
        "head averaging, independent heads",
        "encoders only",
        "averages of independent heads in the place of a common initial head",
    ),
)
#: The paper does not say how strong its coupling is: all arms have .1, these ten and a hundred times that.
_STRENGTHS = {
    strength: tuple(
        (f"{arm}, coupling {strength}", control, f"{thing}, coupling {strength}")
        for arm, control, thing in (
            ("as in the paper, gamma .23", "the same without coupling", "the coupling, as printed, gamma .23"),
            (
                "as in the paper, gamma .23",
                "local, twice the steps",
                "the method as printed, gamma .23, over twice the steps",
            ),
            ("as in the paper, gamma .23", "as in the paper, gamma .23", "a stronger coupling, as printed, gamma .23"),
            _COUPLING,
        )
    )
    for strength in (1, 10)
}
#: The paper steps encoders plainly, all other arms by Adam.
_ITS_OPTIMIZER = (
    (
        "as in the paper, gamma .1, SGD",
        "the same without coupling, SGD",
        "the coupling, as printed, gamma .1, with the paper's optimizer",
    ),
    (
        "as in the paper, gamma .23, SGD",
        "the same without coupling, SGD",
        "the coupling, as printed, gamma .23, with the paper's optimizer",
    ),
    (
        "as in the paper, gamma .23, SGD",
        "local, SGD",
        "the method as printed, gamma .23, with the paper's optimizer, over as many steps",
    ),
    (
        "as in the paper, gamma .23, SGD",
        "local, twice the steps, SGD",
        "the method as printed, gamma .23, with the paper's optimizer, over twice the steps",
    ),
    (
        "as in the paper, gamma .23",
        "as in the paper, gamma .23, SGD",
        "Adam for encoders, beside the coupling as printed",
    ),
)
_GROUPS = ("group averaging", "head averaging", "averages over a whole group, with its bytes")
_OF_RIVALS = (
    ("DSGD", "encoders only", "one model per modality in the place of fusion"),
    ("head averaging", "Sheaf-DMFL-Att", "averaging in the place of coupling"),
)
_ALIKE = (
    *_SHARING,
    *_INDEPENDENT,
    _PROTOTYPES,
    _GROUPS,
    *_OF_RIVALS,
    ("centralized", "local, twice the steps", "pooling all samples, over twice the steps"),
    (
        "centralized, three times the rounds",
        "local, twice the steps",
        "pooling all samples, three times the rounds, over twice the steps",
    ),
)
#: What is asked of arms with heads that mean the same once more, after more rounds.
_ALIKE_AFTER_40 = (*_SHARING, *_INDEPENDENT, *_OF_RIVALS)
_ON_THE_STREET = (
    ("Sheaf-DMFL-Att", "local, twice the steps", "our settings of the method, over twice the steps"),
    ("DMML-KD (approximation)", "DSGD", "distillation in the place of averages"),
)
_UNDER_OCCLUSION = (
    ("Sheaf-DMFL-Att", "Sheaf-DMFL", "attention in the place of concatenation"),
    ("DMML-KD (approximation)", "local, best modality", "distillation"),
    ("DSGD", "local, best modality", "averages of models of one modality"),
)
_MIXED = ("learned orders (ours)", "encoders only, learned orders", "heads mixed, where orders are learned")
_LISTENING = (
    "learned orders (ours)",
    "learned orders, nobody listens",
    "listening before training, where the direction is unsure",
)
_OVER_TWICE = (
    "learned orders (ours)",
    "local, twice the steps",
    "training together, told nothing, over twice the steps",
)
_OVER_DSGD = ("learned orders (ours)", "DSGD", "learned orders against one model per modality with a head of its own")
_AMONG_SAME = (
    "learned orders, same sensors (ours)",
    "encoders only, learned orders",
    "heads mixed by learned orders, among the same sensors",
)
#: What decides where base stations number their beams in orders of their own: what those gain that are told,
_COMMON_BY_ANGLE = (
    ("encoders only, aligned start", "encoders only", "a start that is common by beam"),
    ("head averaging, told the orders", "encoders only, aligned start", "averages of relabelled heads"),
)
_TOLD = (
    *_COMMON_BY_ANGLE,
    ("Sheaf-DMFL-Att, aligned", "encoders only, aligned start", "the coupling along aligned maps"),
)
#: those that find the orders out,
_LEARNED = (
    ("learned orders (ours)", "encoders only", "orders that are learned, and heads mixed by them"),
    ("encoders only, learned orders", "encoders only", "orders that are learned"),
    ("encoders only, learned orders", "local, twice the steps", "sharing encoders, told nothing, over twice the steps"),
    ("encoders only, learned orders", "local", "sharing encoders, told nothing, over as many steps"),
    _MIXED,
    _AMONG_SAME,
    _OVER_TWICE,
    ("learned orders (ours)", "local", "training together, told nothing, over as many steps"),
    (
        "learned orders, same sensors (ours)",
        "local, twice the steps",
        "training together, told nothing, heads mixed among the same sensors, over twice the steps",
    ),
    (
        "mean of diffused and tuned, learned orders (ours)",
        "mean of encoders only and tuned",
        "learned orders and mixed heads, in personal models",
    ),
    (
        "mean of diffused and tuned, learned orders (ours)",
        "local, twice the steps",
        "training together in personal models, told nothing, over twice the steps",
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
#: Nor do these know an order: heads that start independently, and a head for each modality.
_RIVALS = (
    ("encoders only", "the same without coupling", "initial heads that are common by number"),
    _OVER_DSGD,
)
#: What is asked of those who are told nothing on measured beams, where sweeps are inputs.
_WITH_SWEEPS = (
    *_LEARNED,
    _OR_TABLE,
    *_NUMBERS,
    ("learned orders (ours)", "head averaging, told the orders", "learned, not told for heads"),
    *_RIVALS,
)
#: What is asked of learned orders once more, after more rounds.
_AFTER_40 = (_LEARNED[0], _MIXED, _AMONG_SAME, _OVER_TWICE, _OVER_DSGD, _OR_TOLD)


def _among(regime: str, pairs: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Those of two arms that a regime has."""
    arms = comparison_of(regime).methods
    return tuple(pair for pair in pairs if arms.keys() >= {*pair[:2]})


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
            *_ALIKE,
            *_STRENGTHS[1],
            *_STRENGTHS[10],
            *_ITS_OPTIMIZER,
            ("Sheaf-DMFL-Att", "frozen maps", "that maps learn"),
            ("sheaf diffusion (ours)", "head averaging", "maps, where heads mean the same"),
            ("head averaging, then tuned", "head averaging", "training alone at the end"),
            ("mean of averaged and tuned", "head averaging, then tuned", "the mean of both models"),
            ("head averaging", "local, twice the steps", "sharing encoders and heads, over twice the steps"),
            ("DSGD, heads too", "head averaging", "one model per modality in the place of fusion, heads averaged"),
        ),
        "tracking_scarce": _ALIKE,
        "tracking_mirrored": (
            _COUPLING,
            *_ALONE[:2],
            _TWICE,
            *_COMMON_BY_ANGLE,
            *_WITH_SWEEPS,
        ),
        "tracking_permuted": (
            *_TOLD,
            *_WITH_SWEEPS,
            (
                "mean of diffused and tuned, learned orders (ours)",
                "mean of encoders only and tuned, learned orders",
                "heads mixed by learned orders, in personal models",
            ),
            _LISTENING,
        ),
        "tracking_options": (
            ("encoders only, personal GPS encoders", "encoders only", "GPS encoders that are not shared"),
            ("personal GPS encoders", "Sheaf-DMFL-Att", "GPS encoders that are not shared, beside the coupling"),
            ("same sensors", "encoders only", "the coupling, among the same sensors"),
            ("sheaf diffusion, same sensors", "encoders only", "averages of heads, among the same sensors"),
        ),
        "blockage": (*_ALIKE, *_ON_THE_STREET),
        "blockage_long": (*_SHARING, *_OF_RIVALS, *_ON_THE_STREET),
        "drones": (*_ALIKE, *_STRENGTHS[1], *_ITS_OPTIMIZER),
        "drones_occluded": (*_ALIKE, *_UNDER_OCCLUSION, *_ITS_OPTIMIZER),
        "drones_views": _ALIKE,
        # the words of this page's summary after 40 rounds, here and below: no others are in their family
        "drones_long": _ALIKE_AFTER_40,
        # gamma .23 alone, and no arm with Adam
        "drones_long_sgd": _among("drones_long_sgd", _ITS_OPTIMIZER),
        "drones_occluded_long": (*_ALIKE_AFTER_40, *_UNDER_OCCLUSION),
        "drones_views_long": _ALIKE_AFTER_40,
        "drones_views_tuned": _among("drones_views_tuned", _ALIKE_AFTER_40),
        "drones_views_sgd": _among("drones_views_sgd", _ITS_OPTIMIZER),
        "drones_views_80": _among("drones_views_80", _ALIKE_AFTER_40),
        "drones_permuted": (*_TOLD, *_LEARNED, _OR_TOLD, *_NUMBERS, *_RIVALS, _LISTENING),
        # fresh seeds of some rows of another regime, here and below: no others are in their family
        "drones_permuted_fresh": (_MIXED, _OVER_TWICE, _OVER_DSGD),
        "drones_permuted_long": _AFTER_40,
        "drones_sizes": (*_TOLD, *_LEARNED, _OR_TOLD, *_RIVALS),
        "drones_sizes_long": _AFTER_40,
        "drones_sizes_recut": _AFTER_40,
        "drones_sizes_scarce": (
            *_TOLD,
            *_LEARNED,
            _OR_TOLD,
            ("learned orders (ours)", "mean of encoders only and tuned", "learned orders against personal models"),
            *_RIVALS,
            ("learned orders (ours)", "FedPer", "learned orders against heads of their own, with a server"),
        ),
        "drones_sizes_fresh": (_MIXED,),
        "drones_sizes_trust": (
            (
                "learned orders, trust per edge (ours)",
                "encoders only, learned orders",
                "heads mixed by learned orders, with trust per edge",
            ),
            ("learned orders, trust per edge (ours)", "learned orders (ours)", "trust per edge"),
            _MIXED,
        ),
        "drones_sizes_same": (
            (
                "learned orders, same sensors (ours)",
                "encoders only, learned orders, same sensors",
                "heads mixed by learned orders, among the same sensors",
            ),
            ("learned orders, same sensors (ours)", "learned orders (ours)", "the same sensors in the place of all"),
        ),
    }.items()
    for arm, control, thing in pairs
)


def controls_of(search: str) -> dict[str, list[str]]:
    """Control -> arms whose gain it decides, of the arms that a search tunes."""
    alike, found = SEARCHES[search].alike, dict[str, list[str]]()
    for one in (one for one in CONTROLS if REGIMES[one.regime] == search):
        arm, control = (alike.get(name, name) for name in (one.arm, one.control))
        if arm != control and arm not in found.setdefault(control, []):
            found[control].append(arm)
    return found
