// The four cubic weights of a point at fraction x of a cell, for the samples at -1, 0, 1 and 2.
#pragma once

#define cubic1(x) (x * (x + (real)1) * (x + (real)2) * (real)(1.0 / 6.0))
#define cubic2(x) (-(x - (real)1) * (x + (real)1) * (x + (real)2) * (real)0.5)
#define cubic3(x) ((x - (real)1) * x * (x + (real)2) * (real)0.5)
#define cubic4(x) (-(x - (real)1) * x * (x + (real)1) * (real)(1.0 / 6.0))
