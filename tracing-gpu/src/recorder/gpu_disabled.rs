//! The GPU's side of a timeline without the feature `cuda`: empty, because all of it comes from CUPTI.

use range_model::timeline::{Details, Item};

use super::labels::Labels;
use super::moments::Moments;

#[derive(Default)]
pub(crate) struct GpuRecords {
    pub(super) lost: u64,
    pub(super) lost_details: [u64; Details::EACH.len()],
}

pub(super) struct GpuTracks;

impl GpuRecords {
    pub(super) fn new(_: usize) -> Self {
        Self::default()
    }

    pub(super) fn take(&mut self) -> Self {
        Self::default()
    }

    pub(super) fn is_empty(&self) -> bool {
        true
    }
}

impl GpuTracks {
    pub(super) fn new(_: u64) -> Self {
        Self
    }

    pub(super) fn write(&mut self, _: &GpuRecords, _: &Moments, _: &Labels, _: &mut dyn FnMut(&Item<'_>)) {}
}
