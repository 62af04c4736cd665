"""What `verify` says of pairs that differ.

    python -m tests.verify.differing [--mutants N] [--only WORD]

Prints each pair that is not named different, and a table: how many were found, how many were proved
(mutants that do what the program does), how many no launch can tell apart because the interpreter
does not run the kernel, and in what time (CPU seconds of this process, for all of `verify`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from statistics import median, quantiles
from time import process_time

from ptxsw.verify.verdict import Different, Proved, Undecided, verify
from tests.verify.differing import Pair, instructions, kernels
from tests.verify.differing.mutants import mutants


def measured(group: str, pairs: Iterable[Pair]) -> str:
    found, proved, refused, seconds = 0, 0, 0, []
    for pair in pairs:
        began = process_time()
        verdict = verify(pair.first, pair.second, kernel=pair.kernel)
        seconds.append(process_time() - began)
        found += isinstance(verdict, Different)
        proved += isinstance(verdict, Proved)
        refused += isinstance(verdict, Undecided) and "the interpreter" in verdict.reason
        if not isinstance(verdict, Different):
            print(f"{group}: {pair.name}: {seconds[-1]:.1f} s: {verdict}", flush=True)
    counts = f"| {group} | {len(seconds)} | {found} | {proved} | {refused} |"
    if len(seconds) < 2:
        return counts
    ninth = quantiles(seconds, n=10)[-1]
    return f"{counts} {median(seconds):.2f} | {ninth:.2f} | {max(seconds):.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=0, help="of real programs")
    parser.add_argument("--seed", type=int, default=1, help="of the first mutant")
    parser.add_argument("--only", default="", help="pairs with this word in their names")
    options = parser.parse_args()
    groups = {"instructions": instructions(), "kernels": kernels()}
    if options.mutants:
        groups["mutants"] = mutants(options.mutants, options.seed)
    rows = [
        measured(name, [p for p in pairs if options.only in p.name])
        for name, pairs in groups.items()
    ]
    print("| pairs | | different | proved | not run | median s | p90 s | most s |")
    print("|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
