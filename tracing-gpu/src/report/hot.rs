use super::RenderOptions;
use crate::Summary;

pub(crate) fn hot(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}
