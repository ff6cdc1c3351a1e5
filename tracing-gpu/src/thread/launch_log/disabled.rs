//! The launch log without the feature `cuda`: CUDA calls are noted only through CUPTI, so only lifetimes remain.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;

use super::lifetimes::{Lifetimes, OpenLifetimes};
use super::rows::Rows;
use super::stack::{Left, Stack};
use crate::clock::Ticks;
use crate::record::InstanceId;
use crate::session::Session;

#[derive(Debug, Default)]
#[repr(align(512))]
pub(crate) struct LaunchLog {
    lifetimes: Mutex<(InstanceId, Lifetimes)>,
    thread: AtomicU32,
}

/// Nobody reads this.
pub(super) struct Around<'a>(PhantomData<&'a ()>);

impl<'a> Around<'a> {
    pub(super) fn new(_: &'a Stack, _: &'a Rows, _: &'static Session) -> Self {
        Self(PhantomData)
    }
}

impl LaunchLog {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn thread(&self) -> u32 {
        self.thread.load(Relaxed)
    }

    pub(super) fn set_thread(&self, thread: u32, _: &Session) {
        self.thread.store(thread, Relaxed);
    }

    pub(super) fn begin_lifetime(
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

    pub(super) fn end_lifetime(&self, id: InstanceId, _: Option<Ticks>, _: &Session) {
        self.lifetimes.lock().1.end(id);
    }

    pub(super) fn leave_lifetimes(&self) {}

    pub(super) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.lifetimes.lock().1.open()
    }

    #[inline]
    pub(super) fn end_near(&self, _: &Stack, _below: usize, _: Ticks) -> bool {
        false
    }

    #[inline]
    pub(super) fn end_at(&self, _: &Around<'_>, _below: usize, _: Ticks) {}

    #[inline]
    pub(super) fn begin_again(&self, _: &Around<'_>, _: &Left) {}

    #[inline]
    pub(super) fn end_left(&self, _: &Around<'_>) {}

    #[inline]
    pub(super) fn end_gone(&self, _: &Around<'_>, _: Ticks) {}
}
