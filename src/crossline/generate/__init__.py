"""The generator of traffic: the tx workload and the card-fraud scenario."""
