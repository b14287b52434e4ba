namespace muster::accelerate {}
