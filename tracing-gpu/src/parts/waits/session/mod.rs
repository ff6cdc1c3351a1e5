//! What all threads tell each other about waits.

pub(crate) mod asked_values;
pub(crate) mod endings;
pub(crate) mod owed;
pub(crate) mod task_wakes;
