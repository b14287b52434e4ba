namespace muster::container {}
