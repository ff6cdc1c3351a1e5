//! Streams of cudarc 0.19. Another version gets a file like this one.

use std::sync::Arc;

use cudarc::driver::CudaStream;

use super::binding::{AsStream, Named};
use super::naming;
use crate::parts::streams::StreamId;

impl AsStream for Arc<CudaStream> {}

impl Named for Arc<CudaStream> {
    fn name(&self) -> StreamId {
        let context = self.context();
        naming::name((context.cu_ctx().addr(), context), (self.cu_stream().addr(), self))
    }
}
