"""Parts that several families share: encoder, decoder, streams, packed weights, masks, adapters."""
