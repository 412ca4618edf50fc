"""What training reads: speech, text, teacher states, sampled subwords."""
