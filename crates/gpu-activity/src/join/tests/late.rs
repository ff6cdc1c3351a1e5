//! Late records: for how many drains the join waits, compared with rules that look at one call alone.

use super::*;

/// What a call is, and what arrives for it in which drains after its note.
#[derive(Clone, Debug)]
struct Story {
    kind: Kind,
    noted: u32,
    operations: Vec<u32>,
    records: Vec<u32>,
    /// When its thread notes something else.
    went_on: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Launch,
    Graph,
    /// A call from which only a record is expected.
    Mere,
    Own,
}

impl Story {
    fn note(&self, id: u32) -> Note {
        match self.kind {
            Kind::Launch => called(id, 1, 0),
            Kind::Graph => graph(id, 1, 0),
            Kind::Mere => waits(id, 1),
            Kind::Own => Note::Own { correlation: id },
        }
    }

    /// Whether the call is remembered at the end of `drain`, if it was before. It is forgotten two drains after its
    /// last news, once all has arrived that is waited for.
    fn is_remembered(&self, drain: u32, has_calls: bool) -> bool {
        let last = |of: &[u32]| of.iter().map(|after| self.noted + after).filter(|&at| at <= drain).max();
        let (operation, record, went_on) = (last(&self.operations), last(&self.records), last(&[self.went_on]));
        let all = match self.kind {
            Kind::Mere if !has_calls => return false,
            Kind::Own if has_calls => return record.is_none(), // only its record is waited for
            Kind::Graph => return true,
            Kind::Own => Some(operation.unwrap_or(self.noted)),
            Kind::Launch if has_calls => operation.zip(record).map(|(operation, record)| operation.max(record)),
            Kind::Launch => operation,
            Kind::Mere => record.zip(went_on).map(|(record, went_on)| record.max(went_on)),
        };
        all.is_none_or(|news| drain < news + 2)
    }
}

fn stories() -> impl Strategy<Value = Vec<Story>> {
    let kind = prop_oneof![Just(Kind::Launch), Just(Kind::Graph), Just(Kind::Mere), Just(Kind::Own)];
    let some = || prop::collection::vec(0u32..7, 0..4);
    let story = (kind, 0u32..4, some(), some(), 0u32..7)
        .prop_map(|(kind, noted, operations, records, went_on)| Story { kind, noted, operations, records, went_on });
    prop::collection::vec(story, 1..6)
}

proptest! {
    #[test]
    fn calls_are_remembered_until_all_has_arrived(stories in stories(), has_calls in any::<bool>()) {
        let mut all = Join::new(Limits { launches: 100, nodes: 100, calls: 100, has_calls, instances: 100 });
        let mut forgotten = vec![false; stories.len()];
        let stories: Vec<_> = (1u32..).zip(stories).collect();
        for drain in 0..20 {
            for (id, story) in stories.iter().filter(|(_, story)| story.noted == drain) {
                all.note(*id, &story.note(*id));
            }
            for (id, _) in stories.iter().filter(|(_, story)| story.noted + story.went_on == drain) {
                all.note(*id, &began(100 + u64::from(*id), 0, 1));
            }
            for (id, story) in &stories {
                let now = |of: &[u32]| of.iter().filter(|&after| story.noted + after == drain).count();
                (0..now(&story.operations)).for_each(|_| all.ran(*id, 10, 20));
                let records = if has_calls { now(&story.records) } else { 0 };
                (0..records).for_each(|_| all.call(&api(Api::Driver, *id, 5, 9), true, &KEEP));
            }
            all.drain(1);
            for ((id, story), forgotten) in stories.iter().zip(&mut forgotten).filter(|it| it.0.1.noted <= drain) {
                *forgotten = *forgotten || !story.is_remembered(drain, has_calls);
                let is_known = all.pending.known.contains_key(id) || all.pending.mere_calls.get(*id).is_some();
                prop_assert_eq!(is_known, !*forgotten, "{} in drain {}: {:?}", id, drain, story);
            }
        }
    }

    /// Nobody noted these calls. A driver call is nested if the runtime's call of its id arrives at most two drains
    /// earlier or one drain later. If not, it counts after that drain.
    #[test]
    fn a_driver_call_waits_for_one_more_drain(
        calls in prop::collection::vec((0u32..4, any::<bool>(), 0u32..8), 0..12),
    ) {
        let mut all = with_calls(100);
        all.ask_for_events();
        let is_nested = |id: u32, at: u32| {
            calls.iter().any(|&(other, is_driver, then)| other == id && !is_driver && then <= at + 1 && at <= then + 2)
        };
        for drain in 0..12 {
            for &(id, is_driver, _) in calls.iter().filter(|call| call.2 == drain) {
                all.call(&api(if is_driver { Api::Driver } else { Api::Runtime }, id, 5, 9), true, &KEEP);
            }
            all.drain(1);
            let counted = all.take_events().filter_map(|event| match event {
                Event::Call(call, _) if call.api == Api::Driver => Some(call.correlation),
                _ => None,
            });
            let mut counted: Vec<_> = counted.collect();
            let due = calls.iter().filter(|&&(id, is_driver, at)| is_driver && at + 1 == drain && !is_nested(id, at));
            let mut due: Vec<_> = due.map(|call| call.0).collect();
            counted.sort_unstable();
            due.sort_unstable();
            prop_assert_eq!(counted, due, "in drain {}", drain);
        }
    }
}

/// Calls that nobody noted, at the limit of eight: nested ones go first. If more than half are left, the older half of
/// them counts, unless the runtime's call around it may still run.
#[test]
fn at_the_limit_the_older_driver_calls_count() {
    for (nested, running, counted) in [(0, 0, 1..6), (0, 2, 3..6), (4, 0, 5..8), (5, 0, 0..0)] {
        let mut all = with_calls(8);
        all.ask_for_events();
        (1..=running).for_each(|id| all.note(id, &waits(id, 0)));
        (1..=8).for_each(|id| all.call(&api(Api::Driver, id, 5, 9), true, &KEEP));
        (1..=nested).for_each(|id| all.call(&api(Api::Runtime, id, 4, 10), true, &KEEP));
        drop(all.take_events().collect::<Vec<_>>());
        all.call(&api(Api::Driver, 9, 5, 9), true, &KEEP);
        let now = all.take_events().filter_map(|event| match event {
            Event::Call(call, _) => Some(call.correlation),
            _ => None,
        });
        assert!(now.eq(counted), "{nested} nested, {running} run");
    }
    let mut all = with_calls(8);
    (1..=9).for_each(|id| all.call(&api(Api::Runtime, id, 4, 10), true, &KEEP));
    (1..=9).for_each(|id| all.call(&api(Api::Driver, id, 5, 9), true, &KEEP));
    assert_eq!(all.totals(0).calls[&(Api::Driver, 1)].count, 1, "eight are remembered in a drain");
}
