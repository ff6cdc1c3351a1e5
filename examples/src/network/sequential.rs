//! Networks whose layers run one after the other.

use super::device::{Cpu, Device};

/// A layer with its name in the description of the network: `conv1`, `relu1`, `fc`.
pub struct Layer<D: Device = Cpu> {
    /// The name, known only at run time.
    pub name: String,
    /// Its operation.
    pub operation: Operation<D>,
}

/// The operation of a [`Layer`].
pub enum Operation<D: Device = Cpu> {
    /// [`Device::convolve`].
    Conv(D::Conv),
    /// [`Device::relu`].
    Relu,
    /// [`Device::max_pool`].
    Pool,
    /// [`Device::fully_connected`].
    FullyConnected(D::FullyConnected),
    /// [`Device::softmax`].
    Softmax,
}

impl Layer {
    /// The layer on another machine.
    pub fn on<D: Device>(&self, device: &D) -> Layer<D> {
        let operation = match &self.operation {
            Operation::Conv(conv) => Operation::Conv(device.load_conv(conv)),
            Operation::Relu => Operation::Relu,
            Operation::Pool => Operation::Pool,
            Operation::FullyConnected(layer) => Operation::FullyConnected(device.load_fully_connected(layer)),
            Operation::Softmax => Operation::Softmax,
        };
        Layer { name: self.name.clone(), operation }
    }
}

impl<D: Device> Layer<D> {
    /// A layer with this name.
    pub fn new(name: impl Into<String>, operation: Operation<D>) -> Self {
        Self { name: name.into(), operation }
    }

    /// The kind of layer, by which times are added up.
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
    pub fn forward(&self, device: &D, mut input: D::Tensor) -> D::Tensor {
        match &self.operation {
            Operation::Conv(conv) => device.convolve(conv, &input),
            Operation::Pool => device.max_pool(&input),
            Operation::FullyConnected(layer) => device.fully_connected(layer, &input),
            Operation::Softmax => device.softmax(&input),
            Operation::Relu => {
                device.relu(&mut input);
                input
            }
        }
    }
}

/// Computes all `layers`, the first one on `input`.
pub fn forward<D: Device>(device: &D, layers: &[Layer<D>], input: D::Tensor) -> D::Tensor {
    layers.iter().fold(input, |input, layer| layer.forward(device, input))
}

#[cfg(test)]
mod tests {
    use super::{Layer, Operation, forward};
    use crate::network::device::Cpu;
    use crate::network::tensor::{Shape, Tensor};

    #[test]
    fn layers_run_in_order() {
        let layers = [Layer::new("relu", Operation::Relu), Layer::new("pool", Operation::Pool)];
        let shape = Shape { images: 1, channels: 1, height: 2, width: 4 };
        let input = Tensor::new(shape, vec![-1.0, -2.0, 3.0, 1.0, -4.0, -3.0, 5.0, 0.0]);
        assert_eq!(forward(&Cpu, &layers, input).data(), [0.0, 5.0]);
        assert_eq!(layers.each_ref().map(Layer::kind), ["ReLU", "Pool"]);
    }
}
