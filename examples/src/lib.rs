//! What the examples compute: small neural networks, on the CPU or a GPU, the images they classify, the text images travel
//! as, and the numbers all of it starts from; and where they print.
//!
//! Nothing here is annotated. The spans and ranges are in `examples/*.rs`, where they are the subject.

pub mod base64;
pub mod gpu;
pub mod images;
pub mod network;
pub mod output;
pub mod random;
pub mod sieve;
