namespace muster {}
