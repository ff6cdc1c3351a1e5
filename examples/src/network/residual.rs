//! A residual network in the manner of ResNet-18: a stem, four stages of two blocks, a classifier.
//!
//! It has a quarter of ResNet-18's parameters, because every stage has half the channels, and takes 64 by 64 pixels.

use fastrand::Rng;

use super::conv::{BatchNorm, Conv2d, Filters};
use super::device::{Cpu, Device};
use super::layers::FullyConnected;
use super::tensor::Shape;
use super::weights::{Weights, WeightsError};
use crate::uniform_vec;

const BLOCKS_PER_STAGE: usize = 2;
/// The name, channels and stride of each stage.
const STAGES: [(&str, usize, usize); 4] =
    [("stage1", 32, 1), ("stage2", 64, 2), ("stage3", 128, 2), ("stage4", 256, 2)];
const STEM_CHANNELS: usize = 32;
const FEATURES: usize = 256;

/// The network, ready to run.
pub struct ResidualNetwork<D: Device = Cpu> {
    /// From RGB to the channels of the first stage.
    pub stem: D::Conv,
    /// The stages, each at half the resolution of the previous one.
    pub stages: Vec<Stage<D>>,
    /// From the mean of every channel to one number for each class.
    pub classifier: D::FullyConnected,
}

/// Blocks at one resolution.
pub struct Stage<D: Device = Cpu> {
    /// `stage1` to `stage4`.
    pub name: &'static str,
    /// The blocks, in order.
    pub blocks: Vec<Block<D>>,
}

/// Two convolutions, and a way around them.
pub struct Block<D: Device = Cpu> {
    first: D::Conv,
    second: D::Conv,
    /// `None` stands for the identity.
    shortcut: Option<D::Conv>,
}

impl<D: Device> Block<D> {
    /// Computes the block for every image.
    pub fn forward(&self, device: &D, input: &D::Tensor) -> D::Tensor {
        let mut inner = device.convolve(&self.first, input);
        device.relu(&mut inner);
        let mut output = device.convolve(&self.second, &inner);
        match &self.shortcut {
            Some(shortcut) => device.add(&mut output, &device.convolve(shortcut, input)),
            None => device.add(&mut output, input),
        }
        device.relu(&mut output);
        output
    }
}

impl<D: Device> ResidualNetwork<D> {
    /// The logits of every image.
    pub fn forward(&self, device: &D, input: &D::Tensor) -> D::Tensor {
        let mut activations = device.convolve(&self.stem, input);
        device.relu(&mut activations);
        for block in self.stages.iter().flat_map(|stage| &stage.blocks) {
            activations = block.forward(device, &activations);
        }
        device.fully_connected(&self.classifier, &device.global_average_pool(&activations))
    }
}

impl ResidualNetwork {
    /// Number of classes.
    pub const CLASSES: usize = 1000;

    /// The extent of a batch of `images` images.
    pub fn input_shape(images: usize) -> Shape {
        Shape { images, channels: 3, height: 64, width: 64 }
    }

    /// Builds the network from `weights`, with every batch normalisation folded into the convolution before it.
    ///
    /// # Errors
    /// If an array is missing or has another extent.
    pub fn from_weights(weights: &Weights) -> Result<Self, WeightsError> {
        let stages = STAGES.iter().scan(STEM_CHANNELS, |in_channels, &(name, channels, stride)| {
            let blocks = (0..BLOCKS_PER_STAGE).map(|index| {
                let plans = BlockPlans::new(name, index, *in_channels, channels, stride);
                *in_channels = channels;
                let shortcut = plans.shortcut.as_ref().map(|plan| plan.load(weights)).transpose()?;
                Ok(Block { first: plans.first.load(weights)?, second: plans.second.load(weights)?, shortcut })
            });
            Some(blocks.collect::<Result<_, _>>().map(|blocks| Stage { name, blocks }))
        });
        Ok(Self {
            stages: stages.collect::<Result<_, _>>()?,
            stem: stem_plan().load(weights)?,
            classifier: FullyConnected {
                weights: weights.get("fc.weight", &[Self::CLASSES, FEATURES])?.to_vec(),
                bias: weights.get("fc.bias", &[Self::CLASSES])?.to_vec(),
            },
        })
    }

    /// The network on another machine.
    pub fn on<D: Device>(&self, device: &D) -> ResidualNetwork<D> {
        let block = |block: &Block| Block {
            first: device.load_conv(&block.first),
            second: device.load_conv(&block.second),
            shortcut: block.shortcut.as_ref().map(|conv| device.load_conv(conv)),
        };
        let stage = |stage: &Stage| Stage { name: stage.name, blocks: stage.blocks.iter().map(block).collect() };
        ResidualNetwork {
            stem: device.load_conv(&self.stem),
            stages: self.stages.iter().map(stage).collect(),
            classifier: device.load_fully_connected(&self.classifier),
        }
    }

    /// Weights of the right extents, distributed like those of an untrained network.
    pub fn random_weights(seed: u64) -> Weights {
        let mut random = Rng::with_seed(seed);
        let mut weights = Weights::default();
        stem_plan().fill(&mut weights, &mut random);
        let mut in_channels = STEM_CHANNELS;
        for (name, channels, stride) in STAGES {
            for index in 0..BLOCKS_PER_STAGE {
                let plans = BlockPlans::new(name, index, in_channels, channels, stride);
                in_channels = channels;
                for plan in [Some(plans.first), Some(plans.second), plans.shortcut].iter().flatten() {
                    plan.fill(&mut weights, &mut random);
                }
            }
        }
        let numbers = uniform_vec(&mut random, Self::CLASSES * FEATURES, -0.1..0.1);
        weights.insert("fc.weight", &[Self::CLASSES, FEATURES], numbers);
        weights.insert("fc.bias", &[Self::CLASSES], uniform_vec(&mut random, Self::CLASSES, -0.1..0.1));
        weights
    }
}

/// A convolution and the batch normalisation after it, with their names in the file.
struct ConvPlan {
    name: String,
    out_channels: usize,
    in_channels: usize,
    size: usize,
    stride: usize,
}

fn stem_plan() -> ConvPlan {
    ConvPlan { name: "stem".to_owned(), out_channels: STEM_CHANNELS, in_channels: 3, size: 3, stride: 1 }
}

struct BlockPlans {
    first: ConvPlan,
    second: ConvPlan,
    shortcut: Option<ConvPlan>,
}

impl BlockPlans {
    /// The first block of a stage changes channels and resolution; the others keep both.
    fn new(stage: &str, index: usize, in_channels: usize, out_channels: usize, stage_stride: usize) -> Self {
        let stride = if index == 0 { stage_stride } else { 1 };
        let plan = |part: &str, in_channels, size, stride| {
            let name = format!("{stage}.{index}.{part}");
            ConvPlan { name, out_channels, in_channels, size, stride }
        };
        let changes = in_channels != out_channels || stride != 1;
        Self {
            first: plan("first", in_channels, 3, stride),
            second: plan("second", out_channels, 3, 1),
            shortcut: changes.then(|| plan("shortcut", in_channels, 1, stride)),
        }
    }
}

impl ConvPlan {
    fn dimensions(&self) -> [usize; 4] {
        [self.out_channels, self.in_channels, self.size, self.size]
    }

    fn load(&self, weights: &Weights) -> Result<Conv2d, WeightsError> {
        let norm = |part: &str| Ok(weights.get(&format!("{}.norm.{part}", self.name), &[self.out_channels])?.to_vec());
        let filters = Filters {
            out_channels: self.out_channels,
            in_channels: self.in_channels,
            size: self.size,
            stride: self.stride,
            padding: self.size / 2,
            weights: weights.get(&format!("{}.weight", self.name), &self.dimensions())?.to_vec(),
            bias: vec![0.0; self.out_channels],
        };
        let norm =
            BatchNorm { gamma: norm("gamma")?, beta: norm("beta")?, mean: norm("mean")?, variance: norm("variance")? };
        Ok(Conv2d::new(filters.fold(&norm)))
    }

    fn fill(&self, weights: &mut Weights, random: &mut Rng) {
        let count = self.dimensions().iter().product();
        let bound = Filters::random_bound(self.in_channels * self.size * self.size);
        weights.insert(format!("{}.weight", self.name), &self.dimensions(), uniform_vec(random, count, -bound..bound));
        for (part, low, high) in [("gamma", 0.5, 1.0), ("beta", -0.1, 0.1), ("mean", -0.1, 0.1), ("variance", 0.8, 1.2)]
        {
            let numbers = uniform_vec(random, self.out_channels, low..high);
            weights.insert(format!("{}.norm.{part}", self.name), &[self.out_channels], numbers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, ResidualNetwork};
    use crate::network::conv::{Conv2d, Filters};
    use crate::network::device::Cpu;
    use crate::network::tensor::{Shape, Tensor};
    use crate::network::weights::{Weights, WeightsError};

    /// One channel, one weight: a multiplication.
    fn times(factor: f32) -> Conv2d {
        let (weights, bias) = (vec![factor], vec![0.0]);
        Conv2d::new(Filters { out_channels: 1, in_channels: 1, size: 1, stride: 1, padding: 0, weights, bias })
    }

    #[test]
    fn a_block_adds_its_input_to_its_result() {
        let input = Tensor::new(Shape { images: 1, channels: 1, height: 1, width: 2 }, vec![1.0, -1.0]);
        let mut block: Block = Block { first: times(3.0), second: times(-0.5), shortcut: None };
        // relu(1 - 0.5 * relu(3)) and relu(-1 - 0.5 * relu(-3))
        assert_eq!(block.forward(&Cpu, &input).data(), [0.0, 0.0]);
        block.shortcut = Some(times(-4.0));
        assert_eq!(block.forward(&Cpu, &input).data(), [0.0, 4.0]);
        block.shortcut = Some(times(4.0));
        assert_eq!(block.forward(&Cpu, &input).data(), [2.5, 0.0]);
    }

    #[test]
    fn each_stage_halves_the_resolution() {
        let network = ResidualNetwork::from_weights(&ResidualNetwork::random_weights(1)).unwrap();
        let mut activations = Tensor::zeros(Shape { images: 1, channels: 3, height: 16, width: 16 });
        activations = network.stem.forward(&activations);
        for (stage, (channels, extent)) in network.stages.iter().zip([(32, 16), (64, 8), (128, 4), (256, 2)]) {
            activations = stage.blocks.iter().fold(activations, |input, block| block.forward(&Cpu, &input));
            assert_eq!(activations.shape(), Shape { images: 1, channels, height: extent, width: extent });
        }
    }

    #[test]
    fn weights_of_another_network_are_refused() {
        let error = ResidualNetwork::from_weights(&Weights::default()).err();
        assert_eq!(error, Some(WeightsError::Missing("stage1.0.first.weight".to_owned())));
    }
}
