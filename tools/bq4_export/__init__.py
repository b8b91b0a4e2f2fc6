"""Reads PyTorch and llama2.c checkpoints without executing code that they contain, and writes .bq4 files."""
