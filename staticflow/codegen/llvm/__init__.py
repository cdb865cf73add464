"""The LLVM renderer: kernels (`render`), and programs that run them (`routine`), as LLVM text."""
