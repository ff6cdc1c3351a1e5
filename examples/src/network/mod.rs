//! Convolutional networks: on the CPU, one thread, no dependencies, and on any other [`Device`].
//!
//! [`tensor`] holds the data, [`conv`] and [`layers`] the operations, [`sequential`] and [`residual`] the networks made
//! of them, [`device`] the machines that these run on, [`nearest`] a classifier that learns, [`weights`] the file that
//! a network is loaded from, and [`reference`](mod@reference) the slow, obvious convolution that the fast one is
//! checked against.
//!
//! On the CPU every sum is taken in a fixed order and no result depends on the C library before the softmax, so logits
//! are equal to the last bit on every machine.

pub mod conv;
pub mod device;
pub mod layers;
pub mod nearest;
pub mod reference;
pub mod residual;
pub mod sequential;
pub mod tensor;
pub mod weights;

pub use conv::{BatchNorm, Conv2d, Filters};
pub use device::{Cpu, Device};
pub use layers::FullyConnected;
pub use residual::ResidualNetwork;
pub use sequential::{Layer, Operation};
pub use tensor::{Shape, Tensor};
pub use weights::{Weights, WeightsError};
