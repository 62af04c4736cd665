"""The one door to "is it so?": are values equal, apart, bounded, aligned, where some conditions
hold?

A question is about terms, and about the conditions that hold (`given`, terms too). It is asked in
one order: the normal form of the terms, what the conditions say of them, cases, samples, and Z3
last. A yes is proved. A no may mean that it is not known, unless a question says otherwise.
"""
