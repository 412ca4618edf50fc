"""The paper's tables from whatever stages are done."""
