//! Networks whose layers run one after the other.

use super::conv::Conv2d;
use super::layers::{self, FullyConnected};
use super::tensor::Tensor;

/// A layer with the name it has in the description of its network: `conv1`, `relu1`, `fc`.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The name, known only at run time.
    pub name: String,
    /// What the layer computes.
    pub operation: Operation,
}

/// What a [`Layer`] computes.
#[derive(Debug, Clone)]
pub enum Operation {
    /// A convolution.
    Conv(Conv2d),
    /// [`layers::relu`].
    Relu,
    /// [`layers::max_pool`].
    Pool,
    /// A fully connected layer.
    FullyConnected(FullyConnected),
    /// [`layers::softmax`].
    Softmax,
}

impl Layer {
    /// A layer called `name`.
    pub fn new(name: impl Into<String>, operation: Operation) -> Self {
        Self { name: name.into(), operation }
    }

    /// The kind of layer, to sum times by.
    pub fn kind(&self) -> &'static str {
        match self.operation {
            Operation::Conv(_) => "Conv",
            Operation::Relu => "ReLU",
            Operation::Pool => "Pool",
            Operation::FullyConnected(_) => "FC",
            Operation::Softmax => "Softmax",
        }
    }

    /// Computes the layer for every image.
    pub fn forward(&self, mut input: Tensor) -> Tensor {
        match &self.operation {
            Operation::Conv(conv) => conv.forward(&input),
            Operation::Pool => layers::max_pool(&input),
            Operation::FullyConnected(layer) => layer.forward(&input),
            Operation::Relu => {
                layers::relu(&mut input);
                input
            }
            Operation::Softmax => {
                layers::softmax(&mut input);
                input
            }
        }
    }
}

/// Computes all `layers`, the first one on `input`.
pub fn forward(layers: &[Layer], input: Tensor) -> Tensor {
    layers.iter().fold(input, |input, layer| layer.forward(input))
}

#[cfg(test)]
mod tests {
    use super::{Layer, Operation, forward};
    use crate::network::tensor::{Shape, Tensor};

    #[test]
    fn layers_run_in_order() {
        let layers = [Layer::new("relu", Operation::Relu), Layer::new("pool", Operation::Pool)];
        let shape = Shape { images: 1, channels: 1, height: 2, width: 4 };
        let input = Tensor::new(shape, vec![-1.0, -2.0, 3.0, 1.0, -4.0, -3.0, 5.0, 0.0]);
        assert_eq!(forward(&layers, input).data(), [0.0, 5.0]);
        assert_eq!(layers.each_ref().map(Layer::kind), ["ReLU", "Pool"]);
    }
}
