//! Instances that go on where they are on no older one any more: the range below them on the stack, which is of another domain, was exited first.
//!
//! Such an instance goes on in another slot, with all that it has counted. The one before stays for as long as it is held: operations of what was launched until then are
//! counted in the instance where it is now, and further down in what was around it then.

use super::projection::{Instances, Kept, NO_SLOT};
use crate::record::{Instance, InstanceId};
use range_report::RangeStyle;

/// What an instance has of its slot: its number, the slot below it and the level, and what holds it.
type Place = (InstanceId, u32, u32, u32, u32);

impl Kept {
    fn place(&self) -> Place {
        (self.id, self.parent, self.level, self.launches, self.below)
    }

    fn put(&mut self, place: Place) {
        (self.id, self.parent, self.level, self.launches, self.below) = place;
    }
}

impl Instances {
    /// It goes on under another number, and above another instance. Where there is no slot for that, it goes on in the one that it has.
    pub(super) fn move_on(&mut self, from: InstanceId, to: InstanceId, parent: InstanceId) {
        let before = self.slot(from);
        let open = self.kept.get(before as usize).filter(|kept| !kept.over && kept.style == RangeStyle::PushPop);
        let Some(open) = open.filter(|_| to != 0 && self.slot(to) == NO_SLOT) else { return };
        let (serial, parent) = (open.serial, if self.is_below(parent, before) { parent } else { 0 });
        self.begin(&Instance { id: to, parent, label: open.label, style: open.style, start: open.start });
        let slot = self.slot(to);
        if slot == NO_SLOT {
            self.by_id.remove(&from);
            self.by_id.insert(to, before);
            if let Some(kept) = self.kept.get_mut(before as usize) {
                kept.id = to;
            }
            return;
        }
        let level = self.level_in(self.before(self.parent(slot), serial));
        self.kept.swap(before as usize, slot as usize);
        let places = [before, slot].map(|slot| self.kept.get(slot as usize).map(Kept::place).unwrap_or_default());
        let Some(gone_on) = self.kept.get_mut(slot as usize) else { return };
        gone_on.put(places[0]);
        (gone_on.level, gone_on.below, gone_on.was_called) = (level, 1, false); // held by the one before; what is below it may not have been called
        let Some(left) = self.kept.get_mut(before as usize) else { return };
        left.put(places[1]);
        (left.serial, left.over, left.folded, left.moved) = (serial, true, true, slot);
        self.open -= 1;
        if !left.is_held() {
            self.loose.push(before);
        }
    }

    /// Whether that instance may be below this slot: it and all below are open, and are other ones.
    fn is_below(&self, id: InstanceId, before: u32) -> bool {
        let mut slot = self.slot(id);
        while let Some(kept) = self.kept.get(slot as usize) {
            if slot == before || kept.over || kept.style == RangeStyle::StartEnd {
                return false;
            }
            slot = kept.parent;
        }
        true
    }

    /// Where the instance of this slot is now.
    pub(super) fn current(&self, mut slot: u32) -> u32 {
        while let Some(kept) = self.kept.get(slot as usize).filter(|kept| kept.moved != NO_SLOT) {
            slot = kept.moved;
        }
        slot
    }

    /// The innermost instance on the stack, from this one down, that began before one of that number: what an exit opened again below it began later.
    pub(super) fn before(&self, mut slot: u32, serial: u64) -> u32 {
        while let Some(kept) = self.kept.get(slot as usize).filter(|kept| kept.serial > serial) {
            slot = kept.parent;
        }
        slot
    }
}
