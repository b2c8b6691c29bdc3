"""What `pyproject.toml` cannot say: how `pip install -e` makes the packages visible to type checkers and editors.

The folders of the packages lie at the top of the tree, so that setuptools would install an import hook, which Python
follows and mypy, Pyright and editors do not. Here an editable install puts a folder on the path that holds one
symbolic link, `sheafedge`, to the tree: everybody can follow that, and files that are added later are seen at once.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.editable_wheel import editable_wheel

TREE = Path(__file__).resolve().parent
#: Hidden, so that no tool that walks the tree walks through the link and comes back.
GROUND = ".editable"


class EditableThroughLink(editable_wheel):
    """Editable install of a folder with a link in it, to setuptools the layout of a plain source folder."""

    def finalize_options(self) -> None:
        """Make the link, and point setuptools at it."""
        link = TREE / GROUND / "sheafedge"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to("..", target_is_directory=True)
        self.distribution.package_dir = {"": GROUND}
        super().finalize_options()


# Named, because the tree is the package: setuptools takes every module of it into the wheel but its own script.
setup(script_name="setup.py", cmdclass={"editable_wheel": EditableThroughLink})
