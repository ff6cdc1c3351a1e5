//! States that no thread has: a thread that ends leaves its own, and the next new thread takes it.

use crate::sync::Mutex;

/// Each is with one thread at most.
#[derive(Debug)]
pub(crate) struct HandOver<T>(Mutex<Vec<T>>);

impl<T> Default for HandOver<T> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<T> HandOver<T> {
    /// Offers a state that `leave` has put in order, which nobody else does from then on.
    pub(crate) fn offer<R>(&self, state: T, leave: impl FnOnce(&T) -> R) -> R {
        let left = leave(&state);
        self.0.lock().push(state);
        left
    }

    /// A state whose thread has ended. What that thread has stored is seen.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().pop()
    }

    pub(crate) fn holds(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.0.lock().iter().any(is_it)
    }
}
