"""What must hold for every algorithm, whatever it computes."""
