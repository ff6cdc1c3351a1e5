//! Who tells when a future was woken: `follow`, and tokio.

pub(crate) mod follow;
pub(crate) mod tokio;
#[cfg(feature = "server")]
pub mod tower;
