//! The operations of the networks, each one kernel.

use cudarc::driver::{CudaSlice, PushKernelArg};

use super::kernels::{Convolution, int, one_block_each, threads, tiles};
use super::{Gpu, must};
use crate::network::{Conv2d, Device, Filters, FullyConnected, Shape, Tensor};

/// A batch in the memory of a GPU.
pub struct DeviceTensor {
    shape: Shape,
    data: CudaSlice<f32>,
}

/// A convolution in the memory of a GPU.
pub struct DeviceConv {
    /// The geometry; the numbers are on the device.
    filters: Filters,
    weights: CudaSlice<f32>,
    bias: CudaSlice<f32>,
}

/// A fully connected layer in the memory of a GPU.
pub struct DeviceFullyConnected {
    weights: CudaSlice<f32>,
    bias: CudaSlice<f32>,
}

impl Gpu {
    fn copy_in(&self, numbers: &[f32]) -> CudaSlice<f32> {
        must(self.stream().clone_htod(numbers))
    }

    /// Uninitialised memory for the result of a kernel.
    fn result(&self, shape: Shape) -> DeviceTensor {
        #[allow(unsafe_code)]
        // SAFETY: any bits are a number, and each function below has a kernel write all of them before it returns the
        // batch.
        let data = unsafe { self.stream().alloc(shape.elements()) };
        DeviceTensor { shape, data: must(data) }
    }
}

/// Only `download` waits for the device.
///
/// # Panics
/// Where the device fails.
#[allow(unsafe_code)] // the launches
impl Device for Gpu {
    type Tensor = DeviceTensor;
    type Conv = DeviceConv;
    type FullyConnected = DeviceFullyConnected;

    fn load_conv(&self, conv: &Conv2d) -> DeviceConv {
        let filters = conv.filters();
        let (weights, bias) = (self.copy_in(&filters.weights), self.copy_in(&filters.bias));
        DeviceConv { filters: Filters { weights: Vec::new(), bias: Vec::new(), ..*filters }, weights, bias }
    }

    fn load_fully_connected(&self, layer: &FullyConnected) -> DeviceFullyConnected {
        DeviceFullyConnected { weights: self.copy_in(&layer.weights), bias: self.copy_in(&layer.bias) }
    }

    fn upload(&self, input: Tensor) -> DeviceTensor {
        DeviceTensor { shape: input.shape(), data: self.copy_in(input.data()) }
    }

    fn download(&self, output: DeviceTensor) -> Tensor {
        let numbers = must(self.stream().clone_dtoh(&output.data));
        must(self.stream().synchronize());
        Tensor::new(output.shape, numbers)
    }

    fn convolve(&self, conv: &DeviceConv, input: &DeviceTensor) -> DeviceTensor {
        let shape = conv.filters.output_shape(input.shape);
        let mut output = self.result(shape);
        let geometry = Convolution::new(&conv.filters, input.shape, shape);
        let mut launch = self.stream().launch_builder(&self.kernels.convolve);
        launch.arg(&mut output.data).arg(&input.data).arg(&conv.weights).arg(&conv.bias).arg(&geometry);
        // SAFETY: the arguments are the kernel's, and it stays inside the extents in `geometry`, which are those of the
        // memory.
        must(unsafe { launch.launch(tiles(shape)) });
        output
    }

    fn fully_connected(&self, layer: &DeviceFullyConnected, input: &DeviceTensor) -> DeviceTensor {
        let (length, outputs) = (input.shape.image(), layer.bias.len());
        assert_eq!(layer.weights.len(), outputs * length, "weights");
        let mut output = self.result(Shape { channels: outputs, height: 1, width: 1, ..input.shape });
        let mut launch = self.stream().launch_builder(&self.kernels.fully_connected);
        let length = int(length);
        launch.arg(&mut output.data).arg(&input.data).arg(&layer.weights).arg(&layer.bias).arg(&length);
        // SAFETY: the arguments are the kernel's; it has a block for each output, and reads `length` numbers in each.
        must(unsafe { launch.launch(one_block_each(outputs, input.shape.images)) });
        output
    }

    fn relu(&self, input: &mut DeviceTensor) {
        let elements = input.shape.elements();
        let count = int(elements);
        let mut launch = self.stream().launch_builder(&self.kernels.relu);
        launch.arg(&mut input.data).arg(&count);
        // SAFETY: the arguments are the kernel's, and there are `count` numbers.
        must(unsafe { launch.launch(threads(elements)) });
    }

    fn add(&self, input: &mut DeviceTensor, other: &DeviceTensor) {
        assert_eq!(input.shape, other.shape);
        let elements = input.shape.elements();
        let count = int(elements);
        let mut launch = self.stream().launch_builder(&self.kernels.add);
        launch.arg(&mut input.data).arg(&other.data).arg(&count);
        // SAFETY: the arguments are the kernel's, and there are `count` numbers in both.
        must(unsafe { launch.launch(threads(elements)) });
    }

    fn max_pool(&self, input: &DeviceTensor) -> DeviceTensor {
        let Shape { height, width, .. } = input.shape;
        let shape = Shape { height: height / 2, width: width / 2, ..input.shape };
        let mut output = self.result(shape);
        let (count, height, width) = (int(shape.elements()), int(height), int(width));
        let mut launch = self.stream().launch_builder(&self.kernels.max_pool);
        launch.arg(&mut output.data).arg(&input.data).arg(&count).arg(&height).arg(&width);
        // SAFETY: the arguments are the kernel's, and planes of `height` by `width` have `count` whole squares.
        must(unsafe { launch.launch(threads(shape.elements())) });
        output
    }

    fn global_average_pool(&self, input: &DeviceTensor) -> DeviceTensor {
        let mut output = self.result(Shape { height: 1, width: 1, ..input.shape });
        let plane = int(input.shape.plane());
        let mut launch = self.stream().launch_builder(&self.kernels.global_average_pool);
        launch.arg(&mut output.data).arg(&input.data).arg(&plane);
        // SAFETY: the arguments are the kernel's, and there is a plane of numbers for each block.
        must(unsafe { launch.launch(one_block_each(output.shape.elements(), 1)) });
        output
    }

    fn softmax(&self, input: &DeviceTensor) -> DeviceTensor {
        let mut output = self.result(input.shape);
        let length = int(input.shape.image());
        let mut launch = self.stream().launch_builder(&self.kernels.softmax);
        launch.arg(&mut output.data).arg(&input.data).arg(&length);
        // SAFETY: the arguments are the kernel's, and there is an image of `length` numbers for each block.
        must(unsafe { launch.launch(one_block_each(input.shape.images, 1)) });
        output
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use crate::gpu::Gpu;
    use crate::network::{Conv2d, Cpu, Device, Filters, FullyConnected, ResidualNetwork, Shape, Tensor};
    use crate::uniform_vec;

    fn images(images: usize, channels: usize, height: usize, width: usize) -> Tensor {
        let shape = Shape { images, channels, height, width };
        Tensor::new(shape, uniform_vec(&mut Rng::with_seed(11), shape.elements(), -1.0..1.0))
    }

    /// The output of every operation, with extents that fill tiles and blocks exactly and with others.
    fn outputs<D: Device>(device: &D) -> Vec<(String, Tensor)> {
        let mut random = Rng::with_seed(7);
        let mut outputs = Vec::new();
        let mut push = |name: String, output| outputs.push((name, device.download(output)));
        for (size, stride, padding) in [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (5, 3, 0), (7, 2, 3)] {
            for (in_channels, out_channels, height, width) in [(1, 1, 7, 7), (3, 17, 9, 19), (16, 32, 16, 16)] {
                let weights = uniform_vec(&mut random, out_channels * in_channels * size * size, -1.0..1.0);
                let bias = uniform_vec(&mut random, out_channels, -1.0..1.0);
                let filters = Filters { out_channels, in_channels, size, stride, padding, weights, bias };
                let input = device.upload(images(2, in_channels, height, width));
                let conv = device.load_conv(&Conv2d::new(filters));
                let name = format!("convolve {size}/{stride}/{padding} {in_channels}x{height}x{width}");
                push(name, device.convolve(&conv, &input));
            }
        }
        for (channels, height, width) in [(1, 2, 2), (5, 7, 9), (32, 16, 16)] {
            let input = images(3, channels, height, width);
            let weights = uniform_vec(&mut random, 10 * input.shape().image(), -1.0..1.0);
            let layer = FullyConnected { weights, bias: uniform_vec(&mut random, 10, -1.0..1.0) };
            let layer = device.load_fully_connected(&layer);
            let input = device.upload(input);
            let name = |operation| format!("{operation} {channels}x{height}x{width}");
            push(name("max pool"), device.max_pool(&input));
            push(name("global average pool"), device.global_average_pool(&input));
            push(name("fully connected"), device.fully_connected(&layer, &input));
            push(name("softmax"), device.softmax(&input));
            let mut changed = device.upload(images(3, channels, height, width));
            device.add(&mut changed, &input);
            device.relu(&mut changed);
            push(name("add and relu"), changed);
        }
        let network = ResidualNetwork::from_weights(&ResidualNetwork::random_weights(1)).unwrap();
        push("residual network".to_owned(), network.on(device).forward(device, &device.upload(images(2, 3, 32, 32))));
        outputs
    }

    #[test]
    fn every_operation_equals_the_cpus_or_one_line_says_why_there_is_no_gpu() {
        match Gpu::open() {
            Ok(gpu) => {
                for ((name, output), (_, expected)) in outputs(&gpu).iter().zip(outputs(&Cpu)) {
                    let difference = output.relative_difference(&expected);
                    assert!(difference < 1e-4, "{name} is off by {difference}");
                }
            }
            Err(reason) => {
                println!("not run: {reason}");
                assert!(!reason.is_empty() && reason.len() < 120 && reason.lines().count() == 1, "{reason:?}");
            }
        }
    }
}
