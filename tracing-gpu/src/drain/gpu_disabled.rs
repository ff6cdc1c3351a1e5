//! The GPU's part of a summary without the feature `cuda`: empty.

use range_model::stats::Keyed;
use range_model::{ActivityLosses, GpuActivity, GraphWork, NodeWork};

use crate::clock::Rate;
use crate::collector::ActivityTotals;
use crate::session::Names;
use crate::session::splits::Joined;

pub(super) fn activity(
    all: &ActivityTotals,
    _: &Keyed<u32, GraphWork>,
    _: &Names,
    _: Rate,
    _: &[f64],
    _: u32,
) -> GpuActivity {
    match *all {}
}

pub(super) fn graphs(all: &ActivityTotals, _: &Names) -> Keyed<u32, GraphWork> {
    match *all {}
}

pub(super) fn node(all: &ActivityTotals, _: &Keyed<u32, GraphWork>, _: u32) -> Option<NodeWork> {
    match *all {}
}

pub(super) fn join(all: &mut ActivityTotals, _: &Joined) {
    match *all {}
}

pub(super) fn losses(all: &ActivityTotals) -> ActivityLosses {
    match *all {}
}
