"""One model in both modes: whether they agree, what each costs, from when on compiling pays."""
