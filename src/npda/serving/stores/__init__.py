"""The stores of a server: opened by versions, made and changed by jobs, corrected sentence by sentence."""
