use super::RenderOptions;
use crate::Summary;

pub(crate) fn projection(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}

pub(crate) fn kernels(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}

pub(crate) fn memory_time(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}

pub(crate) fn memory_size(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}

pub(crate) fn calls(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}

pub(crate) fn range_kernels(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}
