"""Graph to graph: rewriting, folding, fusion, and the pipeline of them."""
