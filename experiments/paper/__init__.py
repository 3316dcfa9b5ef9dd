"""The paper's tables and figures, a command each."""
