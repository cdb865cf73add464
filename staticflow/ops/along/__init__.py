"""Operations along a dim: extremes, running values, order, softmax and class losses."""
