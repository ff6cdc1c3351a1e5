use super::RenderOptions;
use crate::Summary;

pub(crate) fn torch(_: &Summary, _: &RenderOptions) -> String {
    String::new()
}
