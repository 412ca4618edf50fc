"""Why every word of a translation is what it is: the model, the neighbours, and the sentences behind them."""
