"""Reads PyTorch and llama2.c checkpoints without executing what they contain, and writes .bq4 files."""
