"""Loading of plugins: from a file, from a source that another process has read, and of installed packages.

Loading runs the code of the plugin. That happens for what a user has typed or installed, and never for what a file
alone says: a scenario and a run folder may come from strangers.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ...emulator.contracts import ConfigError
from ...emulator.plugin_sources import LOADED, LoadedPlugin, digest_of, is_file, listed_path
from ...emulator.regular_file import read_regular, reason, shown
from .plugin import Plugin

#: Entry points of this group name a `Plugin`, or a module that has one.
GROUP = "sheafedge.plugins"
#: Name under which a file defines its plugin.
NAME = "PLUGIN"
#: A source of so many bytes is none that a person wrote.
MAX_BYTES = 1 << 20
#: Characters of an error's message that ours repeats.
_SHOWN_OF_ERROR = 200


#: Name of a plugin -> tables with rows of it, and the names of these.
_ADDED: dict[str, list[tuple[dict[str, Any], tuple[str, ...]]]] = {}


class PluginSource(NamedTuple):
    """Source of a plugin file; three texts, so that it can be handed to other processes.

    Attributes:
        name: of the file.
        place: its path where it was read, for messages.
        text: content.
    """

    name: str
    place: str
    text: str


def load_plugin(path: str | Path) -> LoadedPlugin:
    """Run a plugin file, and add its rows to the tables; one that is loaded with the same source is left as it is.

    A file that was changed since it was loaded from the same path takes the place of what it was, for notebooks.

    Raises:
        ConfigError: it cannot be read or run, defines no plugin, or adds what exists already; nothing is added then.
    """
    path = Path(path)
    try:
        if path.suffix != ".py":
            raise OSError("it has no name that ends in .py")
        text = read_regular(path, MAX_BYTES).decode("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"plugin {shown(path)} cannot be read ({reason(error)}); give a Python file, or the name of an installed"
            " plugin"
        ) from None
    return load_source(PluginSource(path.name, str(path.absolute()), text))


def load_source(source: PluginSource) -> LoadedPlugin:
    """The same from a source that was read already.

    Raises:
        ConfigError: as `load_plugin`.
    """
    digest = digest_of(source.text.encode())
    if (before := LOADED.get(source.name)) is not None:
        if before.digest == digest:
            return before
        if before.place != source.place:
            raise ConfigError(
                f"two different plugins are called {source.name}: {shown(before.place)} and {shown(source.place)}; load"
                " one of them, or rename the other"
            )
    with _in_one_sentence(f"plugin {shown(source.place)}", source.place), _executed(source) as module:
        return _added(_plugin_of(module), LoadedPlugin(source.name, source.place, digest, frozenset(), source.text))


def load_installed() -> None:
    """Load the plugins of installed packages: entry points of the group `sheafedge.plugins`.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    for point in entry_points(group=GROUP):
        if point.name in LOADED:
            continue
        place = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
        with _in_one_sentence(f"installed plugin {point.name!r} of {place}"):
            found = point.load()
            plugin = _plugin_of(found) if isinstance(found, ModuleType) else found
            _added(plugin, LoadedPlugin(point.name, place, _installed_digest(point), frozenset()))


def load_plugins(named: Sequence[str] = (), listed: Sequence[str] = ()) -> None:
    """Load installed plugins, and those that a user names.

    Args:
        named: files, or names of installed plugins.
        listed: entries of a list that the user trusts, see `plugin_sources`.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    load_installed()
    for name in named:
        if name.endswith(".py") or name not in LOADED:
            load_plugin(name)
    # of a trusted list only files: what is not installed is reported where the scenario is read
    for entry in filter(is_file, listed):
        load_plugin(listed_path(entry))


def load_plugin_sources(sources: Sequence[PluginSource]) -> None:
    """Load installed plugins, and those that the process that started this one has read.

    Raises:
        ConfigError: one of them cannot be loaded.
    """
    load_installed()
    for source in sources:
        load_source(source)


def loaded_sources() -> list[PluginSource]:
    """Sources of the plugin files of this process, for others that it starts."""
    return [PluginSource(one.name, one.place, one.text) for one in LOADED.values() if one.text is not None]


def named_sources() -> list[tuple[str, str]]:
    """Name and source of the plugin files of this process, as they were when loaded."""
    return [(source.name, source.text) for source in loaded_sources()]


def write_sources(folder: Path, sources: Sequence[tuple[str, str]]) -> list[str]:
    """Write plugin files, given by name and source, into a folder; returns their paths."""
    paths = [folder / name for name, _ in sources]
    for path, (_, text) in zip(paths, sources, strict=True):
        path.write_bytes(text.encode())
    return [str(path) for path in paths]


def unload(name: str) -> None:
    """Take the rows of a plugin out of the tables again."""
    _take_out(name)
    sys.modules.pop(_module_name(name), None)


def _take_out(name: str) -> None:
    """Remove the rows of a plugin, if it is loaded."""
    LOADED.pop(name, None)
    for table, rows in _ADDED.pop(name, []):
        for row in rows:
            del table[row]


@contextmanager
def _executed(source: PluginSource) -> Iterator[ModuleType]:
    """Module of a source; registered, because classes in it look for their module by name, unless the block fails."""
    name = _module_name(source.name)
    before, module = sys.modules.get(name), ModuleType(name)
    module.__file__ = source.place
    sys.modules[name] = module
    try:
        # dont_inherit: `from __future__` lines of this file are none of the plugin's
        code = compile(source.text, source.place, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - what loading a plugin means
        yield module
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise


def _module_name(name: str) -> str:
    """A name that no package has; "my-rule.py" may not be importable, but is a fine plugin."""
    return f"sheafedge_plugin_{Path(name).stem}"


def _plugin_of(module: ModuleType) -> object:
    if not hasattr(module, NAME):
        raise ConfigError(f"defines no {NAME}; end it with {NAME} = Plugin(...)")
    return getattr(module, NAME)


def _installed_digest(point: EntryPoint) -> str:
    """SHA-256 over the module of an entry point, or over all modules of its package."""
    root = sys.modules[point.module.partition(".")[0]]
    files = [path for folder in getattr(root, "__path__", ()) for path in Path(folder).rglob("*.py")]
    total = hashlib.sha256()
    for path in sorted(files) or [Path(str(root.__file__))]:
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def _added(plugin: object, loaded: LoadedPlugin) -> LoadedPlugin:
    """The plugin with its rows in the tables, in the place of those that it had before: all of them, or none."""
    if not isinstance(plugin, Plugin):
        raise ConfigError(f"{NAME} must be a Plugin, got {type(plugin).__name__}")
    if not plugin.n_rows:
        raise ConfigError(f"{NAME} adds nothing; give it algorithms, tasks, row_datasets or link_models")
    additions, before = list(plugin.additions()), LOADED.get(loaded.name)
    for kind, table, rows in additions:
        own = {name for other, name in before.provides if other == kind} if before else set()
        if clash := next((name for name in rows if name in table and name not in own), None):
            raise ConfigError(f"adds the {kind} {clash!r}, which exists already; give it another name")
    _take_out(loaded.name)
    for _, table, rows in additions:
        table.update(rows)
    _ADDED[loaded.name] = [(table, tuple(rows)) for _, table, rows in additions]
    provides = frozenset((kind, name) for kind, _, rows in additions for name in rows)
    LOADED[loaded.name] = LoadedPlugin(loaded.name, loaded.place, loaded.digest, provides, loaded.text)
    return LOADED[loaded.name]


@contextmanager
def _in_one_sentence(plugin: str, file: str = "") -> Iterator[None]:
    """Context that reports whatever the code of a plugin raises as one sentence, with its line in this file.

    Raises:
        ConfigError: as said; an interrupt is none of it.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises, SystemExit too
        line = _line_of(error, file)
        said = error.msg if isinstance(error, SyntaxError) else " ".join(str(error).split())[:_SHOWN_OF_ERROR]
        if not isinstance(error, ConfigError):
            said = f"{type(error).__name__}: {said}" if said else type(error).__name__
        raise ConfigError(f"{plugin}{'' if line is None else f', line {line}'}: {said}") from None


def _line_of(error: BaseException, file: str) -> int | None:
    """Line of a file that raised an error, the innermost one; None: it was none of this file."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None
