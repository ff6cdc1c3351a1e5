//! Shared by nothing: the examples stand alone in `examples/examples/`.
