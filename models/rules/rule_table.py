"""Local rules by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..training.client_setup import ClientSetup
from .apfl import Apfl
from .ditto import Ditto
from .local_rule import LocalRule
from .per_fedavg import PerFedAvg
from .pfedme import PFedMe
from .prox import Prox
from .sgd import LocalSgd
from .split import fedper, lg_fedavg
from .tdpfed import TdpFed

#: Name -> what makes it for one client.
RULES: Mapping[str, Callable[[ClientSetup], LocalRule]] = {
    "sgd": LocalSgd,
    "prox": Prox,
    "fedper": fedper,
    "lg_fedavg": lg_fedavg,
    "ditto": Ditto,
    "pfedme": PFedMe,
    "per_fedavg": PerFedAvg,
    "apfl": Apfl,
    "tdpfed": TdpFed,
}
