"""Matrix products as Kernel IR: `dispatch` chooses the way, which the other modules write; `shared`
has the parts of them that programs share, and `calls` what calls those."""
