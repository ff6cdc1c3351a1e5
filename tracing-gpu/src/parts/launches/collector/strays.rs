//! Calls on threads without a state.

use gpu_activity::own_calls as own;
use gpu_activity::record::Note;
use parking_lot::Mutex;

use crate::parts::launches::session::NoteRoom;
use crate::parts::launches::thread::notes::{Dropped, Notes, Taken};

/// Notes of such calls.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Notes>);

impl Strays {
    /// Notes a call of the thread that runs this.
    #[cold]
    #[inline(never)]
    pub(crate) fn note(&self, room: &NoteRoom, correlation: u32, graph: bool, enqueues: bool) {
        let note = if own::is_own() {
            Note::Own { correlation }
        } else {
            Note::Called { correlation, node: 0, instance: 0, graph, at: 0, call: 0, enqueues }
        };
        let _counted_if_not = self.0.lock().push(&note, room);
    }

    /// Takes all notes, and returns how many found no room.
    pub(crate) fn take(&self, notes: &mut Taken, room: &NoteRoom) -> Dropped {
        self.0.lock().take(notes, room)
    }

    /// Gives their memory back.
    pub(crate) fn give_back(&self, notes: &mut Taken, room: &NoteRoom) {
        self.0.lock().keep(notes.clear(room));
    }
}
