"""Pages, plots and tables that people look at."""
