"""The one place that answers whether values are equal, disjoint, bounded or aligned under some
conditions.

A question is about terms, and about the conditions that hold (`given`, terms too). It is asked in
one order: the normal form of the terms, what the conditions say of them, cases, samples, and Z3
last. A yes is proved. A no may mean that it is not known, unless a question says otherwise.

Whether a value is uniform is five questions, each with its one place:

- a term, over a warp: `Term.variance`, which the emulator gives each unknown (`emulator.joins` and
  `recurrences` for registers that paths and loops change);
- a term, over the grid, and cheap enough for a test: `grid.Grid.is_shared` and `is_uniform`;
- a term, where the block is known: `analysis.warps.Warps.uniform`;
- an access, which may have an address a path: `analysis.coalescing.is_uniform`;
- a register of a text that is to be proved right, without the emulator's word: over a warp
  `validate.merged_paths`, over the grid `analysis.instruction_kinds.uniform_registers`.
"""
