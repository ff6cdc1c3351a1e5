use super::RenderOptions;
use crate::Summary;

pub(crate) fn nvprof(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}
