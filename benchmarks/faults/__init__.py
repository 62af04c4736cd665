"""Programs with one fault each against a rule of correctness, their mended twins, and clean ones.

`sources/RULE/NAME.cu` (or .ptx) holds a fault and its twin, which is what `-DMENDED` makes of it;
`sources/clean` holds kernels without a fault. What is expected stands in the sources:

    // block 16x16                the shape of a block, where no launch says it
    // target sm_90a              of the compiler; sm_80 by default
    // run 2 64 100 iota:64:s32   a launch: grid, block, arguments as `ptxsw run --arg` takes them
    // launch {"grid": ...}       one that the check is given, too; both forms take JSON
    // unseen: WHY                the interpreter cannot show the fault
    code(); // fault: RULE        a line where the rule may report it: one of them is named
    code(); // true: RULE         what may be said of that line besides, since it is so

`make.py` compiles them; `python -m benchmarks.faults` asks the checks.
"""
