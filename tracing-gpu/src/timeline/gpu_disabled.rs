//! The GPU's side of a timeline without the feature `cuda`: empty, because all of it comes from CUPTI.

use range_report::timeline::{Details, Item};

use super::Labels;
use super::moments::Moments;

pub(super) struct Waiting;

#[derive(Default)]
pub(super) struct GpuRecords {
    pub(super) lost: u64,
    pub(super) lost_details: [u64; Details::EACH.len()],
}

#[derive(Debug)]
pub(super) struct GpuTracks;

impl Waiting {
    pub(super) fn new(_: usize) -> Self {
        Self
    }

    pub(super) fn take(&self) -> GpuRecords {
        GpuRecords::default()
    }
}

impl GpuRecords {
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
