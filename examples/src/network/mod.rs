//! Convolutional networks on any [`Device`]; on the CPU with one thread and without dependencies.
//!
//! [`tensor`] has the data, [`conv`] and [`layers`] the operations, [`sequential`] and [`residual`] the networks,
//! [`device`] the machines that run them, [`nearest`] a classifier that learns, [`weights`] the file format of a
//! network, and [`reference`](mod@reference) a slow, simple convolution that checks the fast one.
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
