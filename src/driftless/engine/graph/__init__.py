"""Record what a step does, simplify it, replay it. The engine works without it."""
