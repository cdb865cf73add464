"""Matrix products as Kernel IR: `dispatch` chooses the way, which the other modules write."""
