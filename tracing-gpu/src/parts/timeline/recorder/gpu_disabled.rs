//! The GPU's side of a timeline without the feature `cuda`: empty, because all of it comes from CUPTI.

use range_model::timeline::{Details, Item};

use super::labels::Labels;
use super::moments::Moments;

#[derive(Default)]
pub(crate) struct GpuRecords {
    pub(crate) lost: u64,
    pub(crate) lost_details: [u64; Details::EACH.len()],
}

pub(crate) struct GpuTracks;

impl GpuRecords {
    pub(crate) fn new(_: usize) -> Self {
        Self::default()
    }

    pub(crate) fn take(&mut self) -> Self {
        Self::default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }
}

impl GpuTracks {
    pub(crate) fn new(_: u64) -> Self {
        Self
    }

    pub(crate) fn write(&mut self, _: &GpuRecords, _: &Moments, _: &Labels, _: &mut dyn FnMut(&Item<'_>)) {}
}
