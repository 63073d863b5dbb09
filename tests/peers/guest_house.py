"""The repository's own workspace, as `attache demo` writes it."""

import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]


def write(folder):
    """Writes it into a folder, unless one stands there already."""
    if (pathlib.Path(folder) / "configs").exists():
        return
    for part in ("configs", "personas"):
        shutil.copytree(ROOT / part, pathlib.Path(folder) / part, dirs_exist_ok=True)
