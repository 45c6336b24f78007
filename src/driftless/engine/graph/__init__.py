"""Record the operations of a step, simplify them, and replay them instead of running the step's Python code.

Why. A local step of a block goes through the user's module, the algorithm, autograd and vmap: thousands of lines of
Python for about a hundred tensor operations, the same in every step. A replayed step runs the operations alone.

What is recorded. block.py calls functions f(changing, new, fixed) -> result, one for each part of the local training:
`changing` is what a step returns for the next step (model, local state), `new` its minibatch, `fixed` stays during the
round (message, client states, learning rate). The first two calls of a kind (same function, same shapes) run as written
while record.py writes down the operations; these are steps of the run like all others. If both calls consisted of the
same operations, later calls are replayed. Tensors that are no arguments, such as a module's buffers, are not copied:
a replayed call reads the numbers that they have then.

What is refused, and then always runs as written:
  - a function that decides by numbers or reads them in Python: `if x.sum() > 0`, item, tolist, numpy, apply_
  - a function that draws random numbers (the engine's own dropout draws none: it is computed from a key)
  - a function whose first two calls differ, sparse tensors, the fused LSTM

What simplification does (simplify.py). The step y - lr * (g.view(-1) + 0.1 * c), where `fixed` is (lr, c):

    recorded             once before the steps     in each step
    v = view(g, [-1])    p = mul(c, 0.1)           a = add(g, p)       the view is g itself; p is computed before
    p = mul(c, 0.1)                                mul_(a, lr)         writes into a, which is not read again
    a = add(v, p)                                  sub_(y, a)          writes into y: the caller does not use it again
    b = mul(lr, a)
    sub(y, b)

Each number is still the result of the same operation on the same operands, so no bit changes.

How it is checked. The 1st, 4th, 16th, 64th, ... replayed call of a kind also runs as written, on copies, and both
results must be equal to the bit. Otherwise the run ends with an error: something changes that no tensor shows, such as
a counter in Python. Between two checks such a change goes unnoticed. The tests compare whole runs with and without
replay.

How to turn it off. `engine.replay=false`, in Python `engine=EngineSettings(replay=False)`. Nothing else changes.

Cost. A recorded call takes longer than one as written, and all its results stay in memory until it ends. What replaying
saves is the difference between `engine.replay=true` and `false` (benchmarks/ has rows to try it on).
"""
