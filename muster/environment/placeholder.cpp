namespace muster::environment {}
