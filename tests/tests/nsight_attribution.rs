//! Our attribution of GPU work to ranges, applied to a recording of Nsight Systems, compared with Nsight's own
//! `nvtx_gpu_proj_sum` and `nvtx_kern_sum` of that recording: row by row and exactly, except for decimals that a table
//! omits.

#[path = "nsight_attribution/appendix.rs"]
mod appendix;
#[path = "nsight_attribution/export.rs"]
mod export;
#[path = "nsight_attribution/tables.rs"]
mod tables;

use std::collections::BTreeMap;
use std::path::Path;

use tables::{KernelRow, ProjectionRow};

/// Compares the recording `run.sqlite` in a folder with the tables `nvtx_gpu_proj_sum.csv` and `nvtx_kern_sum.csv`
/// beside it.
///
/// In Nsight's table, start/end ranges are levels and children; in ours they are not. So these two figures are not
/// compared for ranges in `around`, which surround start/end ranges or are inside them.
///
/// # Panics
/// If a row differs, or is in only one of the two.
fn agrees(folder: &Path, around: &[&str]) {
    let totals = export::Recording::read(&folder.join("run.sqlite")).attribute();
    let nested = |key: &tables::Key| key.0.as_ref().is_some_and(|(name, _)| around.contains(&name.as_str()));
    let compared = |mut rows: BTreeMap<tables::Key, tables::Figures>| {
        rows.iter_mut().filter(|(key, _)| nested(key)).for_each(|(_, row)| row.rounded.truncate(4));
        rows
    };
    let nsight = ProjectionRow::read(&folder.join("nvtx_gpu_proj_sum.csv"));
    tables::same(&compared(totals.projections), &compared(nsight));
    tables::same(&totals.kernels, &KernelRow::read(&folder.join("nvtx_kern_sum.csv")));
}

#[test]
fn a_recording_made_by_hand_agrees() {
    let folder = appendix::folder();
    agrees(&folder, &[]);
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

#[test]
fn a_recording_of_an_h200_agrees() {
    agrees(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/attribution"), &["request"]);
}
