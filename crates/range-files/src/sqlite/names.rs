//! Names and numbers of Nsight Systems for what CUPTI reports.

use range_model::summary::MemoryKind;
use range_model::timeline::Work;

/// `ENUM_CUDA_MEMCPY_OPER`, which has CUPTI's numbers; `None` for a set.
pub(super) fn copy(kind: MemoryKind) -> Option<i64> {
    (kind != MemoryKind::Set).then_some(kind as i64)
}

/// `ENUM_CUDA_MEM_KIND` for a memory kind of CUPTI, which counts from 1 and has 0 for what it does not know.
pub(super) const fn memory(cupti: u8) -> i64 {
    match cupti {
        1..=7 => cupti as i64 - 1,
        _ => 7,
    }
}

/// A function of the driver that does such work.
pub(super) const fn launcher(work: &Work, in_graph: bool) -> &'static str {
    match work {
        _ if in_graph => "cuGraphLaunch",
        Work::Graph(_) => "cuGraphLaunch",
        Work::Kernel(_) => "cuLaunchKernel",
        Work::Memory(memory) => match memory.kind {
            MemoryKind::HtoD => "cuMemcpyHtoDAsync_v2",
            MemoryKind::DtoH => "cuMemcpyDtoHAsync_v2",
            MemoryKind::DtoD => "cuMemcpyDtoDAsync_v2",
            MemoryKind::PtoP => "cuMemcpyPeerAsync",
            MemoryKind::Set => "cuMemsetD8Async",
            _ => "cuMemcpyAsync",
        },
    }
}

/// The bare name of a kernel: `vec_add` of `void math::vec_add<float>(T1 *, int)`.
pub(super) fn base(kernel: &str) -> &str {
    let bytes = kernel.as_bytes();
    let (mut depth, mut start, mut end, mut at) = (0_u32, 0, kernel.len(), 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = kernel.get(at..).unwrap_or_default();
        match byte {
            b'(' if depth == 0 => {
                if let Some(inner) = ["(anonymous namespace)", "()("].into_iter().find(|inner| rest.starts_with(inner))
                {
                    at += inner.trim_end_matches("(").len();
                    continue;
                }
                end = at;
                break;
            }
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' | b')' | b'}' | b']' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 => start = at + 1,
            b':' if depth == 0 && rest.starts_with("::") => {
                start = at + 2;
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    let name = kernel.get(start..end).unwrap_or_default();
    let bare = name.find('<').filter(|&at| at > 0).and_then(|at| name.get(..at)).unwrap_or(name);
    if bare.is_empty() { kernel } else { bare }
}
