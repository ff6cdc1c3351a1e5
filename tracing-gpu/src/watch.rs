//! A fold that tests look through.

use range_model::timeline::{Details, Item};
use range_model::{Fold, Summary};

/// Shows everything that it gets, and has no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) details: Details,
    pub(crate) see: fn(&Item<'_>),
}

impl Fold for Watch {
    fn details(&self) -> Details {
        self.details
    }
    fn item(&mut self, item: &Item<'_>) {
        use Item::{ApiCall, Call, Detail, Operation, Range};
        if matches!(item, Range(_) | Call(_) | Operation(_) | ApiCall(_) | Detail(_)) {
            (self.see)(item);
        }
    }
    fn finish(&mut self, _: &mut Summary) {}
}
