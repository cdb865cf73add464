"""Operations that the processes of a mesh do together, and what carries their messages."""
