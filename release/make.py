"""`make release`: all files of a release in dist/, made of what is committed.

Wheel and sdist; recipes for conda-forge and Spack that name the sdist by its checksum; NOTES.md
from the changelog; SHA256SUMS of all of them. REPOSITORY (or GITHUB_REPOSITORY) is who releases, as
in `someone/ptxsw`, and stands in all links; without it the package's metadata has no links to a
repository. With TAG (`v0.2.0`) the version has to be that one, and its changes not "unreleased".
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLACEHOLDER: Final = "github.com/OWNER/ptxsw"
NO_DIGEST: Final = "0" * 64
_LINKED: Final = ("pyproject.toml", "CITATION.cff", "docs/ci.md", "docs/install.md")
_RECIPES: Final = ("release/conda/recipe.yaml", "release/spack/package.py")


def main() -> None:
    repository = os.environ.get("REPOSITORY") or os.environ.get("GITHUB_REPOSITORY")
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    with TemporaryDirectory() as directory:
        tree = Path(directory)
        _export(tree)
        number = version(tree)
        text = notes((tree / "CHANGELOG.md").read_text(), number, os.environ.get("TAG") or None)
        for name in (*_LINKED, *_RECIPES):
            if (tree / name).exists():
                (tree / name).write_text(linked((tree / name).read_text(), repository))
        _run("-m", "build", "--no-isolation", "--outdir", str(dist), str(tree))
        [sdist] = dist.glob("*.tar.gz")
        for name in _RECIPES:
            filled = (tree / name).read_text().replace(NO_DIGEST, digest(sdist))
            (dist / Path(name).name).write_text(filled)
    (dist / "NOTES.md").write_text(text)
    packages = [str(path) for path in dist.glob("ptxsw-*")]
    _run("-m", "twine", "--no-color", "check", "--strict", *packages)
    _run("-m", "check_wheel_contents", *(name for name in packages if name.endswith(".whl")))
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(dist.iterdir()))
    (dist / "SHA256SUMS").write_text(sums)
    sys.stdout.write(f"dist/ has ptxsw {number}:\n{sums}")


def _export(tree: Path) -> None:
    """What is committed, without what lies about in the checkout."""
    if subprocess.check_output(["git", "status", "--porcelain", "-uno"], cwd=ROOT):
        sys.exit("commit first: a release is made of what is committed")
    archive = subprocess.check_output(["git", "archive", "HEAD"], cwd=ROOT)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)


def _run(*words: str) -> None:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words[:4])} failed:\n{done.stdout}{done.stderr}")


def version(tree: Path) -> str:
    """Of the package; all files that name it agree."""
    number = _one(r'^__version__ = "(.*)"$', tree / "ptxsw" / "__init__.py")
    for pattern, name in (
        (r"^version: (.*)$", "CITATION.cff"),
        (r'^  version: "(.*)"$', _RECIPES[0]),
        (r'^    version\("(.*?)"', _RECIPES[1]),
    ):
        other = _one(pattern, tree / name)
        if other != number:
            sys.exit(f"{name} says version {other}, ptxsw/__init__.py {number}")
    return number


def _one(pattern: str, path: Path) -> str:
    [found] = re.findall(pattern, path.read_text(), re.MULTILINE)
    return str(found)


def notes(changelog: str, number: str, tag: str | None) -> str:
    """The changes of a version. Exits where there are none, or where `tag` is another one's."""
    sections = dict(_sections(changelog))
    heading = next((one for one in sections if one.split()[0] == number), None)
    if heading is None or not sections[heading]:
        sys.exit(f"CHANGELOG.md has no changes of {number}")
    if tag is not None and tag != f"v{number}":
        sys.exit(f"the tag is {tag}, the version {number}")
    if tag is not None and "unreleased" in heading:
        sys.exit(f'CHANGELOG.md: give "{heading}" its date')
    return sections[heading] + "\n"


def _sections(changelog: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading, body.strip()


def linked(text: str, repository: str | None) -> str:
    """A text with links to the repository that releases; without one, its lines of metadata go."""
    if repository is not None:
        return text.replace(PLACEHOLDER, f"github.com/{repository}").replace(
            "OWNER/ptxsw@", f"{repository}@"
        )
    return re.sub(rf'^\w+ = "https://{PLACEHOLDER}.*"\n', "", text, flags=re.MULTILINE)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
