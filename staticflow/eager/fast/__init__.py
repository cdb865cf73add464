"""The fast path of eager operations: native code from the tensors to NumPy and back.

It takes the usual case: tensors on the host of dtypes that need no promotion, or a tensor beside
numbers that do not change its dtype, and none of a thread's rarer switches on. Everything else,
errors included, goes to the general path, `staticflow.eager.mode`, which gives the same; and all of
it does, where native code cannot read the objects of this Python.

The way of ``z = x * w``, where a gradient of ``w`` is wanted:

1. `Tensor.__mul__` is a method descriptor. Its code, one of those that `methods` writes, leads to
   `op_calls.call_op_on` with what is known of the op, a `records.KnownOp`. (In the first
   operations of a process it is the op itself, until `EagerMode.prepare` has all this made.)
2. `apply.apply` makes a `records.Call` of it. `operands.open_operands` looks whether it is the
   usual case, and takes the arrays up; `compute.compute_call` calls NumPy or a kernel.
3. `apply.wrap_one` makes a tensor of the array that came, or `view.wrap_view` a view.
4. `entry.record` leaves a tape entry in ``z._vertex``: where the gradients go, what the vjp needs
   of the values, and the user's line (`line`). Backward is `staticflow.eager.tape`.
5. Where one of these declines, by null without an error, `op_calls.call_op` lets `recall.recall`
   run the general path, which promotes operands; from the third call of a kind on its ops are a
   plan.

The way of ``z.sum()``, which asks of ``z`` only its shape: `recall.recall` writes what the call is
told by (`key`), finds the plan of such calls, and runs its steps, each by `apply.apply`. The first
call of a kind has no plan: it is the function of Python, whose ops are native. The second is run by
the general path, which notes the ops, and `plans` writes the plan that serves from the third on.
A vjp is such a function, too: `staticflow.eager.vjp_plans`.

The way of ``loss.backward()``: `tape` lets `walk.walk_on` go from vertex to vertex. `pull` takes a
step back by the partials of an elementwise op, or by the plan of the vjp, of what `kept` has looked
at; `followed` tells which edges are walked, and `sums` adds what several users of a vertex give.
Python pulls a vertex that is not usual.

The way of ``F.layer_norm(x, ...)``, which is fused: the plan has one step, a program, that
`program_calls` runs; it leaves one entry, through which `pull_fused` goes back by another.

The way of ``x.add_(y)``: `in_place.call_in_place` computes the elements where they belong, in steps
that `change` has.

`core` puts the native functions (`staticflow.native`) together in one module, which is compiled
once in a process; `forms` makes of it what Python calls, with `in_place_forms` and `methods`.
`records` declares what native code has of its own, `classes` what it reads of Python's classes,
`objects` what is asked of these, `calls` how Python is called.

These say in native code what a function of the general path says in Python. They are two, since
native code holds and drops each reference, reads fields and fills tuples, each of which is a call
where it runs as Python: of a product `apply` and `record` would take about 110 and 60 frames so,
and `EagerMode.general` and `vertex.record` take about 15 each. `tests/eager/test_eager_fast.py`
holds them together on samples of all ops. What is of numbers alone is one function: the general
path calls `staticflow.eager.work` on shapes::

    apply.apply               mode.EagerMode.general
    apply.wrap_one            mode.EagerMode.finish
    operands.agree            mode._agree
    compute.compute_call      mode._compute
    view.wrap_view            views.wrap_view
    view.lies_in              views.is_view
    view.own_memory           tensor.Tensor._own_memory
    view.base_of              views.View.base
    entry.record              vertex.record
    entry.find_edge           tensor.Tensor._current_vertex
    entry.save_arguments      vertex.save_values
    entry.fill_entry          vertex.make_entry
    entry.save_value          saved.save_value
    entry.make_saved_type     saved.SavedType
    line.find_line            vertex.user_frame
    change.bump               tensor.Tensor._bump
    change.open_target        in_place.is_open
    change.is_free            in_place.is_recorded
    change.is_in_rows         rows.in_rows
    in_place.store_value      in_place.assign
    recall.draw_state         random.Generator.draw
    walk.walk_from            tape._walk
    followed.edges_of         tape._walk, of one vertex
    sums.add_any              tape.sum_cotangents
    pull.pull_by_partials     vertex.PerElementEntry.pull
    pull.pull_by_plan         vertex.TapeEntry.pull, vjp_plans.pull_by_plan
    program_calls.call_program  fused.fused_form
    pull_fused.pull_fused     fused.FusedEntry.pull
    kept.open_saved           saved.check_unchanged
    kept.load_value           saved.load_value
"""
