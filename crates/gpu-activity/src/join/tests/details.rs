//! Details: where their calls were made, and how long the join remembers it.

use super::*;
use crate::record::EventRecord;

fn with_details(launches: usize, has_calls: bool) -> Join {
    let mut all = Join::new(Limits { launches, nodes: launches, calls: 100, has_calls, instances: 100 });
    all.ask_for_events();
    all.ask_for_details();
    all
}

fn event(correlation: u32) -> Detail {
    Detail::Event(EventRecord { at: 0, correlation, context: 1, stream: 7, event: 3, record: 9, graph_node: 0 })
}

impl Join {
    /// Passes a detail to the join. Returns the node of its call, if known; `None` if the detail is the profiler's.
    fn comes(&mut self, detail: &Detail) -> Option<Option<u32>> {
        self.detail(detail);
        let event = self.take_events().next()?;
        let Event::Detail(of, launch) = event else { panic!("{event:?}") };
        assert_eq!(of, *detail);
        Some(launch.map(|launch| launch.node))
    }
}

#[test]
fn a_detail_has_the_place_of_its_call() {
    let mut all = with_details(100, false);
    all.notes(&[waits(1, 2), Note::Own { correlation: 2 }, waits(3, 3), called(4, 1, 0)]);
    all.drain(9); // the stream may reach an event late
    assert_eq!(
        (all.comes(&event(1)), all.comes(&event(2)), all.comes(&event(3))),
        (Some(Some(2)), None, Some(Some(3)))
    );
    assert_eq!(all.comes(&event(5)), Some(None));
    all.drain(3);
    assert_eq!(all.remembered(), 1, "the launch alone is waited for");
    assert_eq!(all.losses(), losses(|it| it.outstanding = 1));
}

/// The record of a call may arrive before its detail.
#[test]
fn with_records_of_calls_a_detail_has_two_drains() {
    let mut all = with_details(100, true);
    all.notes(&[waits(1, 2), Note::Own { correlation: 2 }, waits(3, 3), waits(4, 1)]);
    (1..=3).for_each(|id| all.call(&api(Api::Runtime, id, 8, 14), true, &KEEP));
    drop(all.take_events().collect::<Vec<_>>());
    all.drain(1);
    assert_eq!((all.comes(&event(1)), all.comes(&event(2))), (Some(Some(2)), None));
    all.drain(2);
    assert_eq!((all.comes(&event(3)), all.comes(&event(4))), (Some(None), Some(Some(1))));
}

#[test]
fn without_details_nothing_is_remembered_for_them() {
    let mut all = join(100, 100);
    all.notes(&[waits(1, 2), called(2, 1, 0)]);
    all.drain(3);
    assert_eq!(all.remembered(), 1);
    all.detail(&event(1));
    assert_eq!(all.take_events().count(), 0);
}
