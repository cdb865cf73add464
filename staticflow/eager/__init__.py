"""Define-by-run: tensors that compute now, and the tape.

``z = x * w`` calls an op of `staticflow.ops` with tensors. What they are, and how it runs, is
written here, in these ideas, each with its modules:

- A *tensor* is an array with a place on the tape (`tensor`). It is made by `creation`, `ranges`,
  `windows`, `data` and `legacy`, and read by `layout`, `printing` and `interop`. `bind` tells the
  ops of the class.
- A *memory* is what tensors share, with the *version* that counts its changes; a *view* is a
  tensor's way to its base (`memory`, `views`). That of a lazy layer has no values yet
  (`no_values`).
- The *fast path* is native code for usual calls; how one goes through it says `fast`. The *general
  path* takes any call, and words what is wrong with it (`mode`).
- The *tape* is the *vertices* of recorded operations, with *edges* to those before (`vertex`)
  and *saved values* (`saved`). Backward walks it (`tape`), gives leaves their
  ``.grad`` (`gradients`, `ownership`), of few rows of a large table these alone until it is asked
  for (`row_gradient`), puts those of parts of a tensor together (`part_gradient`), calls *hooks*
  (`hooks`, `saved_hooks`) and may look for NaN (`anomaly`); native code runs the ops of a vjp
  whose kind of call it knows (`vjp_plans`);
  second derivatives of straight pieces are zeros on it (`straight`).
- A *switch* says for a block what is recorded (`grad_mode`, `inference`), and in which dtypes
  operations compute (`autocast`).
- An *in-place operation* gives a memory new elements, and tensors new histories (`in_place`). A
  *subscript* is a view or a selection (`indexed`).
- *Dispatch* is the choice of what computes an op: NumPy, a kernel or another op (`choose`), by
  measured *costs* (`costs`), by how much work it is to NumPy (`work`), of matrices by how they lie
  (`products`), and of a power by its number (`powers`).
- A *program* is a function traced on symbols and compiled for the kind of its operands
  (`programs`): how their arrays lie (`rows`, `turned`), and which are numbers (`numbers`). Programs
  are a *kernel* of one op (`kernels`); a *pullback*, the vjp of one (`pullback`); a *fused* call of
  several ops, one vertex (`fused`), with what its derivative keeps (`residuals`); an *update*,
  which writes where it reads (`overwrite`), as a step of an optimiser does (`updates`). A pullback
  and a fused call are noted as an op, so that native code runs them (`noted_programs`).
- An *expression* is what the tape has of a tensor as a part of a graph (`expression`).
- A *generator* is the state that draws count on (`random`).
- A *device* is where arrays are: the host, or a GPU with cupy (`device`, `cuda`, `accelerator`).
"""
