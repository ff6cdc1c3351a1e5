//! The way to a phase in words.

use super::phases::Phases;
use crate::text::width::{shorten, width_of};
use crate::text::wording::Wording;

impl Phases<'_> {
    /// The name of a phase.
    pub(crate) fn label(&self, index: usize, wording: Wording) -> String {
        let node = self.all()[index].node;
        wording.label(node.domain.as_deref(), &node.name)
    }

    /// The names from the root down to a phase, as many as fit, the last ones.
    pub(crate) fn path(&self, index: usize, room: usize, wording: Wording) -> String {
        const MORE: &str = "… > ";
        let mut text = self.label(index, wording);
        let mut at = self.all()[index].parent;
        while let Some(ancestor) = at {
            let longer = format!("{} > {text}", self.label(ancestor, wording));
            at = self.all()[ancestor].parent;
            let more = if at.is_some() { width_of(MORE) } else { 0 };
            if width_of(&longer) + more > room {
                let room = room.saturating_sub(width_of(MORE));
                return MORE.to_owned() + &shorten(&text, room, room / 2);
            }
            text = longer;
        }
        shorten(&text, room, room / 2)
    }
}
