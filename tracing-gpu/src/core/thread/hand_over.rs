//! States without a thread: an ending thread leaves its state, and the next new thread takes it.

use crate::sync::Mutex;

/// Each state belongs to at most one thread.
#[derive(Debug)]
pub(crate) struct HandOver<T>(Mutex<Vec<T>>);

impl<T> Default for HandOver<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> HandOver<T> {
    /// Offers a state after `leave` has tidied it. Nobody else runs `leave` on it afterwards.
    pub(crate) fn offer<R>(&self, state: T, leave: impl FnOnce(&T) -> R) -> R {
        let left = leave(&state);
        self.0.lock().push(state);
        left
    }

    /// Takes the state of a thread that has ended. All stores of that thread are visible.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().pop()
    }

    #[cfg(feature = "injection")]
    pub(crate) fn holds(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.0.lock().iter().any(is_it)
    }
}
