// The four cubic weights of a point at fraction x of a cell, for the samples at -1, 0, 1 and 2.
#pragma once

#define cubic1(x) (x * (x + (literal)1) * (x + (literal)2) * (literal)(1.0 / 6.0))
#define cubic2(x) (-(x - (literal)1) * (x + (literal)1) * (x + (literal)2) * (literal)0.5)
#define cubic3(x) ((x - (literal)1) * x * (x + (literal)2) * (literal)0.5)
#define cubic4(x) (-(x - (literal)1) * x * (x + (literal)1) * (literal)(1.0 / 6.0))
