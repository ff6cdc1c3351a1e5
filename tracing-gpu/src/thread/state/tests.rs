use std::mem::offset_of;

use super::*;
use crate::thread::launch_log::TOUCHED;
use crate::thread::row::{LABEL, WRITTEN};

#[test]
fn what_callbacks_write_often_has_its_own_place_in_a_page() {
    assert_eq!((size_of::<Row>(), offset_of!(ThreadState, rows) % 512), (512, 0));
    // The head with six open ranges, five slots of the slab, the first ids of a registry, the outermost timed range,
    // and five ranges with CUDA calls.
    let often = [
        (0, offset_of!(ThreadState, stack) + 8 + 6 * 32),
        (offset_of!(ThreadState, slab), 208),
        (offset_of!(ThreadState, remembered), 176),
        (offset_of!(ThreadState, pairs), 64),
        (offset_of!(ThreadState, launches), TOUCHED),
    ];
    for (start, length) in often {
        assert!(start % 512 + length <= WRITTEN.start, "{length} bytes from {start} on meet {WRITTEN:?}");
    }
}

#[test]
fn the_label_that_a_launch_reads_is_where_instances_are_written() {
    assert_eq!(LABEL / 64, WRITTEN.start / 64);
}
