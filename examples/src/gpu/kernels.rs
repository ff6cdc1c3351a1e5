//! The kernels of `kernels.cu`, and the number of threads in a launch of each.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, DeviceRepr, LaunchConfig};

use super::{compile, reason};
use crate::network::{Filters, Shape};

/// Rows, and columns, of the tiles of a convolution.
const TILE: u32 = 16;
/// Threads in a block of every other kernel. A power of two, because sums are halved repeatedly.
const THREADS: u32 = 128;

/// One function for each operation.
pub(super) struct Kernels {
    pub(super) convolve: CudaFunction,
    pub(super) relu: CudaFunction,
    pub(super) add: CudaFunction,
    pub(super) max_pool: CudaFunction,
    pub(super) global_average_pool: CudaFunction,
    pub(super) fully_connected: CudaFunction,
    pub(super) softmax: CudaFunction,
}

impl Kernels {
    pub(super) fn compile(context: &Arc<CudaContext>) -> Result<Self, String> {
        let module = compile(context, include_str!("kernels.cu"), &[("TILE", TILE), ("THREADS", THREADS)])?;
        let kernel = |name| module.load_function(name).map_err(|error| reason("finding a kernel", error));
        Ok(Self {
            convolve: kernel("convolve")?,
            relu: kernel("relu")?,
            add: kernel("add")?,
            max_pool: kernel("max_pool")?,
            global_average_pool: kernel("global_average_pool")?,
            fully_connected: kernel("fully_connected")?,
            softmax: kernel("softmax")?,
        })
    }
}

/// The geometry of a convolution, as the kernel declares it.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Convolution {
    in_channels: i32,
    height: i32,
    width: i32,
    out_channels: i32,
    out_height: i32,
    out_width: i32,
    size: i32,
    stride: i32,
    padding: i32,
}

// SAFETY: nine 32-bit integers in C's layout, which the kernel declares in the same order.
#[allow(unsafe_code)]
unsafe impl DeviceRepr for Convolution {}

impl Convolution {
    pub(super) fn new(filters: &Filters, input: Shape, output: Shape) -> Self {
        Self {
            in_channels: int(input.channels),
            height: int(input.height),
            width: int(input.width),
            out_channels: int(output.channels),
            out_height: int(output.height),
            out_width: int(output.width),
            size: int(filters.size),
            stride: int(filters.stride),
            padding: int(filters.padding),
        }
    }
}

/// A thread for each number of `shape`, in tiles.
pub(super) fn tiles(shape: Shape) -> LaunchConfig {
    let (across, down) = (blocks(shape.plane(), TILE), blocks(shape.channels, TILE));
    LaunchConfig { grid_dim: (across, down, blocks(shape.images, 1)), block_dim: (TILE, TILE, 1), shared_mem_bytes: 0 }
}

/// A thread for each of `count` numbers.
pub(super) fn threads(count: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks(count, THREADS), 1, 1), block_dim: (THREADS, 1, 1), shared_mem_bytes: 0 }
}

/// A block for each of `across` by `down` numbers.
pub(super) fn one_block_each(across: usize, down: usize) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks(across, 1), blocks(down, 1), 1), ..threads(1) }
}

fn blocks(count: usize, size: u32) -> u32 {
    u32::try_from(count).expect("a batch that 32 bits can count").div_ceil(size)
}

/// The kernels count in 32 bits.
pub(super) fn int(count: usize) -> i32 {
    i32::try_from(count).expect("a batch that 32 bits can count")
}
