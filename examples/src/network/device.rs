//! The machine that a network runs on.

use super::conv::Conv2d;
use super::layers::{self, FullyConnected};
use super::tensor::Tensor;

/// A machine that has every operation of the networks: the [`Cpu`], or a [`Gpu`](crate::gpu::Gpu).
///
/// A GPU may still be computing when a function returns; [`download`](Self::download) waits for the numbers.
pub trait Device {
    /// A batch in the machine's memory.
    type Tensor;
    /// A convolution that is ready to run.
    type Conv;
    /// A fully connected layer that is ready to run.
    type FullyConnected;

    /// Prepares a convolution.
    fn load_conv(&self, conv: &Conv2d) -> Self::Conv;
    /// Prepares a fully connected layer.
    fn load_fully_connected(&self, layer: &FullyConnected) -> Self::FullyConnected;

    /// Brings a batch to the machine.
    fn upload(&self, input: Tensor) -> Self::Tensor;
    /// Brings a batch back.
    fn download(&self, output: Self::Tensor) -> Tensor;

    /// [`Conv2d::forward`].
    fn convolve(&self, conv: &Self::Conv, input: &Self::Tensor) -> Self::Tensor;
    /// [`FullyConnected::forward`].
    fn fully_connected(&self, layer: &Self::FullyConnected, input: &Self::Tensor) -> Self::Tensor;
    /// [`layers::relu`].
    fn relu(&self, input: &mut Self::Tensor);
    /// [`layers::add`].
    fn add(&self, input: &mut Self::Tensor, other: &Self::Tensor);
    /// [`layers::max_pool`].
    fn max_pool(&self, input: &Self::Tensor) -> Self::Tensor;
    /// [`layers::global_average_pool`].
    fn global_average_pool(&self, input: &Self::Tensor) -> Self::Tensor;
    /// [`layers::softmax`] of a copy.
    fn softmax(&self, input: &Self::Tensor) -> Self::Tensor;
}

/// One thread of the processor that this program runs on.
#[derive(Debug, Clone, Copy)]
pub struct Cpu;

impl Device for Cpu {
    type Tensor = Tensor;
    type Conv = Conv2d;
    type FullyConnected = FullyConnected;

    fn load_conv(&self, conv: &Conv2d) -> Conv2d {
        conv.clone()
    }

    fn load_fully_connected(&self, layer: &FullyConnected) -> FullyConnected {
        layer.clone()
    }

    fn upload(&self, input: Tensor) -> Tensor {
        input
    }

    fn download(&self, output: Tensor) -> Tensor {
        output
    }

    fn convolve(&self, conv: &Conv2d, input: &Tensor) -> Tensor {
        conv.forward(input)
    }

    fn fully_connected(&self, layer: &FullyConnected, input: &Tensor) -> Tensor {
        layer.forward(input)
    }

    fn relu(&self, input: &mut Tensor) {
        layers::relu(input);
    }

    fn add(&self, input: &mut Tensor, other: &Tensor) {
        layers::add(input, other);
    }

    fn max_pool(&self, input: &Tensor) -> Tensor {
        layers::max_pool(input)
    }

    fn global_average_pool(&self, input: &Tensor) -> Tensor {
        layers::global_average_pool(input)
    }

    fn softmax(&self, input: &Tensor) -> Tensor {
        let mut output = input.clone();
        layers::softmax(&mut output);
        output
    }
}
