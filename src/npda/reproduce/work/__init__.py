"""The work of a recipe's stages: corpora, trainings, translations."""
