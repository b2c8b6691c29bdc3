"""Plugins that this process has loaded: code from outside the package, by its name and the hash of its source.

Who loads them is `scenarios.plugins`. Here is what a scenario, a run folder and a worker must know of them: which are
there, what each provides, and whether they are those that somebody lists. A list names a plugin as `my_rule.py`,
`folder/my_rule.py` or, of an installed one, `its_name`; `#sha256=...` behind it pins its source.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .contracts import ConfigError
from .regular_file import shown

_PIN = "#sha256="
#: Characters of a hash that a message repeats.
_SHOWN_OF_HASH = 12

#: What a plugin provides: the kind of a row, such as "algorithm", and its name.
Provided = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """One plugin of this process.

    Attributes:
        name: of its file, such as "my_rule.py", or of its entry point.
        place: path of the file, or the distribution that installed it.
        digest: SHA-256 of its source, in hexadecimal.
        provides: rows that it has added to tables.
        text: source of a file, from which other processes load it; None: it is installed.
    """

    name: str
    place: str
    digest: str
    provides: frozenset[Provided]
    text: str | None = None

    @property
    def pinned(self) -> str:
        """Entry of a list that names this plugin with this source."""
        return f"{self.name}{_PIN}{self.digest}"


#: Name -> plugin.
LOADED: dict[str, LoadedPlugin] = {}


def digest_of(content: bytes) -> str:
    """SHA-256 of a source, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def is_file(entry: str) -> bool:
    """Whether an entry of a list names a file, and no installed plugin."""
    return _place_and_pin(entry)[0].endswith(".py")


def listed_path(entry: str) -> Path:
    """Path of the file that an entry of a list names."""
    return Path(_place_and_pin(entry)[0])


def placed(entries: Iterable[str], folder: Path) -> list[str]:
    """The entries of a list in a file of this folder, with their paths relative to it made absolute."""
    return [str(folder.absolute() / entry) if is_file(entry) else entry for entry in entries]


def check_listed(entries: Sequence[str]) -> None:
    """Refuse a list of which a plugin is not loaded, or is loaded with another source.

    Nothing is loaded here: a list comes out of a file, which anybody may have written.

    Raises:
        ConfigError: naming the plugin, and what to type.
    """
    for entry in entries:
        place, pin = _place_and_pin(entry)
        plugin = LOADED.get(Path(place).name)
        if plugin is None:
            raise ConfigError(_missing(entry, place))
        if pin not in ("", plugin.digest):
            raise ConfigError(
                f"plugin {plugin.name} of {shown(plugin.place)} is not the one that the scenario was run with (its"
                f" SHA-256 begins with {plugin.digest[:_SHOWN_OF_HASH]}, not {pin[:_SHOWN_OF_HASH]}); give"
                f" --plugin {shown(place)}, or take {_PIN}... out of the list in scenario.toml to go on with the"
                " changed one"
            )


def plugins_of(provided: Collection[Provided]) -> tuple[LoadedPlugin, ...]:
    """Loaded plugins, by name, that provide one of these rows; others, listed or not, decide nothing."""
    return tuple(LOADED[name] for name in sorted(LOADED) if not LOADED[name].provides.isdisjoint(provided))


def _missing(entry: str, place: str) -> str:
    """Sentence about a plugin that is not loaded."""
    if not is_file(entry):
        needed = f"the scenario needs the plugin {shown(place)!r}"
        return f"{needed}, which is not installed here; install the package that has it"
    needed = f"the scenario needs the plugin {shown(place)}, whose code would run here"
    if Path(place).name == place:  # as an engine names it, which does not say where a worker has it
        return f"{needed}; start the worker with --plugin {shown(place)}, the file that the run was started with"
    return f"{needed}; read it, and add --plugin {shown(place)}, or --trust-plugins for all that the scenario lists"


def _place_and_pin(entry: str) -> tuple[str, str]:
    place, _, pin = entry.partition(_PIN)
    return place, pin
