"""The repository's own workspace, as `attache demo` writes it."""

import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write(folder):
    """Writes it into a folder, over what stands there."""
    for part in ("configs", "personas"):
        shutil.copytree(ROOT / part, pathlib.Path(folder) / part, dirs_exist_ok=True)
