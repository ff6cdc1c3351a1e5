//! Functions of the driver that put work on a GPU, by CUPTI's number (cbid) and name.
//!
//! A function keeps its number in all versions; a library that is older than a function does not know its number. This
//! table has launches, copies and sets, because their records are read. Prefetches, host functions and stream-ordered
//! allocations are enqueued too, but produce no such record.

use crate::graph::NodeKind;
use crate::record::{Api, Details};
use range_model::timeline::{is_slight, plain_function};

/// Numbers are below this.
const END: usize = 1024;

/// Number and name, in ascending order.
#[rustfmt::skip]
pub const ENQUEUE: &[(u32, &str)] = &[
    (115, "cuLaunch"), (116, "cuLaunchGrid"), (117, "cuLaunchGridAsync"),
    (216, "cuMemsetD8Async"), (218, "cuMemsetD16Async"), (220, "cuMemsetD32Async"),
    (222, "cuMemsetD2D8Async"), (224, "cuMemsetD2D16Async"), (226, "cuMemsetD2D32Async"),
    (249, "cuMemsetD8_v2"), (250, "cuMemsetD16_v2"), (251, "cuMemsetD32_v2"),
    (252, "cuMemsetD2D8_v2"), (253, "cuMemsetD2D16_v2"), (254, "cuMemsetD2D32_v2"),
    (276, "cuMemcpyHtoD_v2"), (277, "cuMemcpyHtoDAsync_v2"), (278, "cuMemcpyDtoH_v2"), (279, "cuMemcpyDtoHAsync_v2"),
    (280, "cuMemcpyDtoD_v2"), (281, "cuMemcpyDtoDAsync_v2"), (282, "cuMemcpyAtoH_v2"), (283, "cuMemcpyAtoHAsync_v2"),
    (284, "cuMemcpyAtoD_v2"), (285, "cuMemcpyDtoA_v2"), (286, "cuMemcpyAtoA_v2"),
    (287, "cuMemcpy2D_v2"), (288, "cuMemcpy2DUnaligned_v2"), (289, "cuMemcpy2DAsync_v2"),
    (290, "cuMemcpy3D_v2"), (291, "cuMemcpy3DAsync_v2"), (292, "cuMemcpyHtoA_v2"), (293, "cuMemcpyHtoAAsync_v2"),
    (305, "cuMemcpy"), (306, "cuMemcpyAsync"), (307, "cuLaunchKernel"),
    (318, "cuMemcpyPeer"), (319, "cuMemcpyPeerAsync"), (320, "cuMemcpy3DPeer"), (321, "cuMemcpy3DPeerAsync"),
    (397, "cuMemcpyHtoD_v2_ptds"), (398, "cuMemcpyDtoH_v2_ptds"), (399, "cuMemcpyDtoD_v2_ptds"),
    (400, "cuMemcpyDtoA_v2_ptds"), (401, "cuMemcpyAtoD_v2_ptds"), (402, "cuMemcpyHtoA_v2_ptds"),
    (403, "cuMemcpyAtoH_v2_ptds"), (404, "cuMemcpyAtoA_v2_ptds"), (405, "cuMemcpy2D_v2_ptds"),
    (406, "cuMemcpy2DUnaligned_v2_ptds"), (407, "cuMemcpy3D_v2_ptds"), (408, "cuMemcpy_ptds"),
    (409, "cuMemcpyPeer_ptds"), (410, "cuMemcpy3DPeer_ptds"),
    (411, "cuMemsetD8_v2_ptds"), (412, "cuMemsetD16_v2_ptds"), (413, "cuMemsetD32_v2_ptds"),
    (414, "cuMemsetD2D8_v2_ptds"), (415, "cuMemsetD2D16_v2_ptds"), (416, "cuMemsetD2D32_v2_ptds"),
    (418, "cuMemcpyAsync_ptsz"), (419, "cuMemcpyHtoAAsync_v2_ptsz"), (420, "cuMemcpyAtoHAsync_v2_ptsz"),
    (421, "cuMemcpyHtoDAsync_v2_ptsz"), (422, "cuMemcpyDtoHAsync_v2_ptsz"), (423, "cuMemcpyDtoDAsync_v2_ptsz"),
    (424, "cuMemcpy2DAsync_v2_ptsz"), (425, "cuMemcpy3DAsync_v2_ptsz"), (426, "cuMemcpyPeerAsync_ptsz"),
    (427, "cuMemcpy3DPeerAsync_ptsz"),
    (428, "cuMemsetD8Async_ptsz"), (429, "cuMemsetD16Async_ptsz"), (430, "cuMemsetD32Async_ptsz"),
    (431, "cuMemsetD2D8Async_ptsz"), (432, "cuMemsetD2D16Async_ptsz"), (433, "cuMemsetD2D32Async_ptsz"),
    (442, "cuLaunchKernel_ptsz"), (477, "cuLaunchCooperativeKernel"), (478, "cuLaunchCooperativeKernel_ptsz"),
    (480, "cuLaunchCooperativeKernelMultiDevice"), (514, "cuGraphLaunch"), (515, "cuGraphLaunch_ptsz"),
    (652, "cuLaunchKernelEx"), (653, "cuLaunchKernelEx_ptsz"),
    (776, "cuMemcpyBatchAsync"), (777, "cuMemcpyBatchAsync_ptsz"),
    (778, "cuMemcpy3DBatchAsync"), (779, "cuMemcpy3DBatchAsync_ptsz"),
    (796, "cuMemcpyBatchAsync_v2"), (797, "cuMemcpyBatchAsync_v2_ptsz"),
    (798, "cuMemcpy3DBatchAsync_v2"), (799, "cuMemcpy3DBatchAsync_v2_ptsz"),
    (837, "cuMemcpyWithAttributesAsync"), (838, "cuMemcpyWithAttributesAsync_ptsz"),
    (839, "cuMemcpy3DWithAttributesAsync"), (840, "cuMemcpy3DWithAttributesAsync_ptsz"),
];

/// Functions with which a program polls a device. They are recorded, because a program may wait so.
const QUERIES: &[&str] = &["EventQuery", "StreamQuery"];

/// The runtime's first step of a launch, before the record of the launch begins. It is recorded, because a launch may
/// wait here for another thread's lock.
const PREPARES: &str = "KernelGetName";

/// Whether entries of the driver's function of this name are not noted: it launches nothing, and nobody asks for the
/// span in which it is called.
pub(crate) fn is_of_no_span(name: &str) -> bool {
    is_slight(Api::Driver, name) || is_query(name) || plain_function(name) == PREPARES
}

/// Whether a program polls a device with the function of this name.
pub(crate) fn is_query(name: &str) -> bool {
    QUERIES.contains(&plain_function(name))
}

/// Functions of the driver that produce a detail, by detail. If the detail is asked for, each call is noted, so that
/// the detail has a place.
#[doc(hidden)]
pub const DETAILED: &[(Details, &[&str])] = &[
    (
        Details::WAITS,
        &["cuCtxSynchronize", "cuCtxSynchronize_v2", "cuEventSynchronize", "cuStreamSynchronize", "cuStreamWaitEvent"],
    ),
    (Details::EVENT_WAITS, &["cuStreamWaitEvent"]),
    (Details::EVENTS.and(Details::EVENT_TIMES), &["cuEventRecord", "cuEventRecordWithFlags"]),
    (
        Details::MEMORY,
        &[
            "cuMemAlloc_v2",
            "cuMemAllocAsync",
            "cuMemAllocFromPoolAsync",
            "cuMemAllocHost_v2",
            "cuMemAllocManaged",
            "cuMemAllocPitch_v2",
            "cuMemFree_v2",
            "cuMemFreeAsync",
            "cuMemFreeHost",
            "cuMemHostAlloc",
        ],
    ),
    (Details::STREAMS, &["cuStreamCreate", "cuStreamCreateWithPriority"]),
];

/// Whether the function of this name produces one of these details. Per-thread default streams have functions of their
/// own, which end in `_ptsz`.
pub(crate) fn is_detailed(name: &str, details: Details) -> bool {
    let name = name.strip_suffix("_ptsz").unwrap_or(name);
    DETAILED.iter().any(|(kind, names)| details.has(*kind) && names.contains(&name))
}

/// Numbers of functions are below this.
pub(crate) const NUMBERS: u32 = END as u32;

/// One bit per number, set for functions in [`ENQUEUE`].
static BITS: [u64; END / 64] = {
    let mut bits = [0; END / 64];
    let mut next = 0;
    while next < ENQUEUE.len() {
        let number = ENQUEUE[next].0 as usize;
        bits[number / 64] |= 1 << (number % 64);
        next += 1;
    }
    bits
};

/// Whether this function of the driver puts operations on a GPU.
#[inline]
pub(crate) fn enqueues(cbid: u32) -> bool {
    const LAUNCH_KERNEL: u32 = 307; // the most frequent one: skips the table
    cbid == LAUNCH_KERNEL || BITS.get(cbid as usize / 64).is_some_and(|word| word >> (cbid % 64) & 1 == 1)
}

/// Name of a function that puts work on a GPU.
pub(crate) fn enqueue_name(cbid: u32) -> Option<&'static str> {
    let place = ENQUEUE.binary_search_by_key(&cbid, |(number, _)| *number).ok()?;
    ENQUEUE.get(place).map(|(_, name)| *name)
}

/// Whether the function of this name adds a node to a graph.
pub(crate) fn adds_node(name: &str) -> bool {
    name.starts_with("cuGraphAdd") && !name.starts_with("cuGraphAddDependencies")
}

/// Whether the function of this name opens memory of another process, which may be on another device.
pub(crate) fn opens_memory(name: &str) -> bool {
    ["cuIpcOpenMemHandle", "cuMemImportFromShareableHandle"].iter().any(|start| name.starts_with(start))
}

/// Offset of the pointer to a node's parameters in those of the function of this name, if it adds nodes of any type.
pub(crate) fn node_parameters(name: &str) -> Option<usize> {
    match name {
        "cuGraphAddNode" => Some(32),
        "cuGraphAddNode_v2" => Some(40),
        _ => None,
    }
}

/// What a node of this type does (`CUgraphNodeType`).
pub(crate) const fn node_of_type(number: u32) -> NodeKind {
    match number {
        0 => NodeKind::Kernel,
        1 => NodeKind::Copy,
        2 => NodeKind::Set,
        4 => NodeKind::Child,
        _ => NodeKind::Other,
    }
}

/// What a node does that the function of this name creates, in a capture or in a graph that the program builds.
pub(crate) fn node_kind(name: &str) -> NodeKind {
    let is_of = |parts: [&str; 2]| parts.iter().any(|part| name.starts_with(part));
    if is_of(["cuLaunchHostFunc", "cuGraphAddHostNode"]) {
        NodeKind::Other
    } else if is_of(["cuLaunch", "cuGraphAddKernelNode"]) {
        NodeKind::Kernel
    } else if is_of(["cuMemcpy", "cuGraphAddMemcpyNode"]) {
        NodeKind::Copy
    } else if is_of(["cuMemset", "cuGraphAddMemsetNode"]) {
        NodeKind::Set
    } else if is_of(["cuGraphLaunch", "cuGraphAddChildGraphNode"]) {
        NodeKind::Child
    } else {
        NodeKind::Other
    }
}

/// Whether this function of the driver launches a graph. The operations of a graph share one correlation id.
#[inline]
#[must_use]
pub fn is_graph_launch(cbid: u32) -> bool {
    matches!(cbid, 514 | 515)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_table() {
        assert!(ENQUEUE.is_sorted_by(|a, b| a.0 < b.0));
        let listed: Vec<u32> = ENQUEUE.iter().map(|(number, _)| *number).collect();
        let bits: Vec<u32> = (0..5000).filter(|number| enqueues(*number)).collect();
        assert_eq!(bits, listed);
        assert!(!enqueues(u32::MAX));
    }

    #[test]
    fn entries_are_noted_where_the_span_is_asked_for() {
        for (name, is_recorded) in [("cuKernelGetName", true), ("cuEventQuery", true), ("cuCtxGetCurrent", false)] {
            assert_eq!((is_of_no_span(name), !is_slight(Api::Driver, name)), (true, is_recorded), "{name}");
        }
        assert!(is_query("cuEventQuery") && is_query("cudaStreamQuery_ptsz_v7000") && !is_query("cuEventRecord"));
        assert!(!is_of_no_span("cuEventRecord"));
        for (_, name) in ENQUEUE {
            assert!(!is_of_no_span(name), "{name}");
        }
    }

    #[test]
    fn a_node_does_what_its_function_does() {
        for (name, kind) in [
            ("cuLaunchKernelEx_ptsz", NodeKind::Kernel),
            ("cuMemcpyHtoDAsync_v2", NodeKind::Copy),
            ("cuMemsetD8Async", NodeKind::Set),
            ("cuGraphAddKernelNode_v2", NodeKind::Kernel),
            ("cuGraphAddMemsetNode", NodeKind::Set),
            ("cuGraphAddChildGraphNode", NodeKind::Child),
            ("cuGraphAddHostNode", NodeKind::Other),
            ("cuLaunchHostFunc", NodeKind::Other),
            ("cuGraphAddNode_v2", NodeKind::Other),
        ] {
            assert_eq!(node_kind(name), kind, "{name}");
        }
        assert_eq!((enqueue_name(307), enqueue_name(308)), (Some("cuLaunchKernel"), None));
        assert!(
            adds_node("cuGraphAddNode_v2") && !adds_node("cuGraphAddDependencies_v2") && !adds_node("cuGraphCreate")
        );
    }

    #[test]
    fn graph_launches_are_those_of_that_name() {
        for (number, name) in ENQUEUE {
            assert_eq!(is_graph_launch(*number), name.starts_with("cuGraphLaunch"), "{name}");
        }
    }
}
