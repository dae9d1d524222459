"""What kernels move and compute at the release's sizes, what that takes at the least, and a model of what it takes.

The floor is arithmetic: each input read once, each output written once, one matrix operation for each that is needed,
over the machine's ceilings, whichever of the two is longer. Nobody can be below it.

The prediction is a model and not a measurement. It assumes that

- each launch costs 3 us on top (as without CUDA graphs) and kernels run one after another;
- within one kernel memory and matmul overlap fully: the longer of the two counts;
- results between kernels go through memory: written once, read once; weights of an expert are read once, whatever the
  number of its tiles, since they stay in L2;
- tiles of rows are computed whole, and heads at their padded width;
- a multiprocessor has one program at a time, all take equally long, and both ceilings are reached as far as
  multiprocessors have work: the last wave, and a grid smaller than the chip, cost their idle share. For memory that is
  too much, since fewer multiprocessors than all can keep it busy;
- unpacking, softmax and other arithmetic beside the matmuls is free, and so are barriers and the filling of pipelines.

So it says which part of the distance to the floor the cut of the work explains, and what it leaves out errs to both
sides. Where it and a measurement differ, something of this list does not hold.
"""
