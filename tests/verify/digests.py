"""Digests of what `optimize` writes, in every scheme and form: has a change kept every byte?

    python -m tests.verify.digests DIGESTS.json [FOLDER …]             record
    python -m tests.verify.digests --against DIGESTS.json [FOLDER …]   compare, name what differs

Covers the fixtures of the tests, the KernelGen operators, and every .ptx file below the folders
given. Exit 0: recorded, or all equal; 1: something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.ptx.errors import PtxError
from tests.real import FIXTURES, text_of
from tests.verify.matrix import FOLDERS, KERNELGEN, WAYS

WHOLE = [("auto", "auto"), *WAYS]


def texts(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    """Names that do not depend on where the checkout stands, and files."""
    for folder in FOLDERS:
        for path in sorted((KERNELGEN / folder).glob("*.ptx")):
            yield f"kernelgen/{folder}/{path.name}", path
    for path in FIXTURES:
        yield f"fixtures/{path.name}", path
    for given in folders:
        for path in sorted(given.rglob("*.ptx")):
            yield f"{given.name}/{path.relative_to(given)}", path


def digest(job: tuple[str, Path]) -> tuple[str, list[str]]:
    """One digest for each scheme and form; the error's first words where there is no result."""
    name, path = job
    text = text_of(path)
    found = []
    for scheme, form in WHOLE:
        mode = "auto" if scheme == "auto" else "force"
        try:
            result = optimize(text, Options(mode=mode, scheme=scheme, form=form, budget_s=600))
        except PtxError as error:
            found.append(type(error).__name__)
            continue
        same = result.text == text
        found.append("-" if same else hashlib.sha256(result.text.encode()).hexdigest()[:16])
    return name, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--against", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("paths", nargs="*", type=Path)
    given = parser.parse_args()
    if not (given.against or given.paths):
        parser.error("say where to record the digests")
    folders = given.paths if given.against else given.paths[1:]
    with Pool(given.jobs) as pool:
        made = dict(pool.imap_unordered(digest, texts(folders), chunksize=2))
    if given.against is None:
        given.paths[0].write_text(json.dumps(made, indent=0, sort_keys=True) + "\n")
        print(f"{len(made)} texts in {len(WHOLE)} ways")
        return 0
    known = json.loads(given.against.read_text())
    wrong = 0
    for name, digests in sorted(made.items()):
        for way, old, new in zip(WHOLE, known.get(name, [None] * len(WHOLE)), digests, strict=True):
            if old != new:
                wrong += 1
                print(f"{name} {'+'.join(way)}: {old} -> {new}")
    print(f"{len(made)} texts in {len(WHOLE)} ways: {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
