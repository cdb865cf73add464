"""What both modes know of a value before it is computed: types, sizes, nodes and closed graphs."""
