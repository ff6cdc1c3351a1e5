//! The launch log without the feature `cuda`: CUDA calls are noted only through CUPTI, so only lifetimes remain.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

use super::lifetimes::{Lifetimes, OpenLifetimes};
use crate::clock::Ticks;
use crate::core::record::InstanceId;
use crate::core::session::Session;
use crate::core::thread::rows::Rows;
use crate::core::thread::stack::{Left, Stack};

#[derive(Debug, Default)]
#[repr(align(512))]
pub(crate) struct LaunchLog {
    lifetimes: Mutex<(InstanceId, Lifetimes)>,
    thread: AtomicU32,
}

/// Nobody reads this.
pub(crate) struct Around<'a>(PhantomData<&'a ()>);

impl<'a> Around<'a> {
    pub(crate) fn new(_: &'a Stack, _: &'a Rows, _: &'static Session) -> Self {
        Self(PhantomData)
    }
}

impl LaunchLog {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Relaxed)
    }

    pub(crate) fn set_thread(&self, thread: u32, _: &Session) {
        self.thread.store(thread, Relaxed);
    }

    pub(crate) fn begin_lifetime(
        &self,
        label: u32,
        start: Ticks,
        _: &Session,
        name: impl Fn() -> String,
    ) -> InstanceId {
        let mut lifetimes = self.lifetimes.lock();
        lifetimes.0 += 1;
        let id = lifetimes.0;
        lifetimes.1.begin(id, label, start, false, name);
        id
    }

    pub(crate) fn end_lifetime(&self, id: InstanceId, _: Option<Ticks>, _: &Session) {
        self.lifetimes.lock().1.end(id);
    }

    pub(crate) fn leave_lifetimes(&self) {}

    pub(crate) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.lifetimes.lock().1.open()
    }

    #[inline]
    pub(crate) fn end_near(&self, _: &Stack, _below: usize, _: Ticks) -> bool {
        false
    }

    #[inline]
    pub(crate) fn end_at(&self, _: &Around<'_>, _below: usize, _: Ticks) {}

    #[inline]
    pub(crate) fn begin_again(&self, _: &Around<'_>, _: &Left) {}

    #[inline]
    pub(crate) fn end_left(&self, _: &Around<'_>) {}

    #[inline]
    pub(crate) fn end_gone(&self, _: &Around<'_>, _: Ticks) {}
}
