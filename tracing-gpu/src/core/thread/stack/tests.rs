use super::*;
use proptest::prelude::*;

/// A tool with a manual clock. Row `n` of a place is the span's name; its node is the domain.
#[derive(Default)]
struct Recorder {
    now: Ticks,
    log: Vec<String>,
    ended: Vec<Ended>,
}

impl Ranges for Recorder {
    fn close(&mut self, place: Place, _span: u64) -> Ticks {
        self.log.push(format!("pop {}", place.row()));
        self.now
    }
    fn reopen(&mut self, place: Place, _span: u64) -> Ticks {
        self.log.push(format!("push {}", place.row()));
        self.now
    }
    fn ended(&mut self, ended: Ended, _: CallId, _: Ticks, _: usize) {
        self.ended.push(ended);
    }
    fn domain(&self, place: Place) -> u32 {
        place.node()
    }
}

fn name(n: u32) -> Place {
    Place::new(0, n)
}

/// The range of this span.
fn of(span: u64) -> impl Fn(u64, Place) -> bool {
    move |open, _| open == span
}

fn durations(recorder: &Recorder) -> Vec<(usize, u64, u64)> {
    recorder.ended.iter().map(|ended| (ended.place.row(), ended.duration, ended.nested)).collect()
}

#[test]
fn nested_ranges_charge_the_one_below() {
    let stack = Stack::new();
    stack.push(1, name(1), 100);
    stack.push(2, name(2), 110);
    assert!(stack.is_top(2) && !stack.is_top(1));
    assert_eq!(stack.pop(130), Some(Ended { place: name(2), entered: 110, duration: 20, nested: 0 }));
    assert_eq!(stack.pop(150), Some(Ended { place: name(1), entered: 100, duration: 50, nested: 20 }));
    assert_eq!(stack.pop(151), None);
}

#[test]
fn room_shows_which_call_was_just_left() {
    let (stack, called) = (Stack::new(), name(1).with_call());
    let push = |call, start| {
        let room = stack.room(called)?;
        room.push(7, called, start, call);
        Some(room.below)
    };
    assert_eq!([push(3, 100), push(4, 110)], [Some(0), Some(1)]);
    assert_eq!((stack.call_of(1), stack.pop(120).map(|ended| ended.duration)), (4, Some(10)));
    let just_left = |call| stack.room(called).and_then(|room| room.just_left(call));
    assert_eq!([3, 4, 5].map(just_left), [None, Some(110), None]);
    assert!(stack.room(called.under(9)).is_none(), "the innermost range is no parent of it");
    stack.push(8, name(2), 130);
    stack.pop(140);
    assert_eq!(just_left(4), None, "a range without a call was left since");
    (1..NEAR).for_each(|_| assert!(stack.push(9, called, 150).is_some()));
    assert!(stack.room(called).is_none());
}

#[test]
fn ranges_that_are_never_ended_are_bounded_and_cost_an_exit_nothing() {
    let (stack, mut tool) = (Stack::new(), Recorder { now: 200, ..Recorder::default() });
    assert!((0..MOST_OPEN - 2).all(|_| stack.push(7, name(7), 100).is_some()));
    stack.push(1, name(1), 110);
    stack.push(2, name(2), 120);
    assert!(stack.push(3, name(3), 130).is_none() && stack.depth() == MOST_OPEN);
    let left = stack.exit_below(of(1), &[], &mut tool).expect("it is open");
    assert_eq!((left.base(), left.leaving.len()), (MOST_OPEN - 3, 3), "only what is near is looked at");
    assert_eq!(durations(&tool), [(2, 80, 0), (1, 90, 80)]);
    // The range above reopened at 200; the one below is charged for the instance that ended above it.
    assert_eq!(stack.pop(230), Some(Ended { place: name(2), entered: 200, duration: 30, nested: 0 }));
    assert_eq!(stack.pop(240), Some(Ended { place: name(7), entered: 100, duration: 140, nested: 120 }));
}

#[test]
fn an_exit_further_down_splits_what_is_above() {
    let (stack, mut tool) = (Stack::new(), Recorder { now: 200, ..Recorder::default() });
    for (span, start) in [(1, 100), (2, 110), (3, 120)] {
        stack.push(span, name(span as u32), start);
    }
    assert_eq!(stack.exit_below(of(1), &[], &mut tool).map(|left| left.reopened), Some(2));
    assert_eq!(tool.log, ["pop 3", "pop 2", "pop 1", "push 2", "push 3"]);
    assert_eq!(durations(&tool), [(3, 80, 0), (2, 90, 80), (1, 100, 90)]);
    assert_eq!(stack.pop(230), Some(Ended { place: name(3), entered: 200, duration: 30, nested: 0 }));
    assert_eq!(stack.pop(250), Some(Ended { place: name(2), entered: 200, duration: 50, nested: 30 }));
}

/// Thousands of ranges are open if guards are held across awaits. In quadratic time one of these exits would take
/// seconds; it takes some 20 ms.
#[test]
fn an_exit_further_down_takes_time_by_the_depth() {
    let stack = Stack::new();
    assert!((0..20_000).all(|span| stack.push(u64::from(span), name(span), 1).is_some()));
    let exits = (10_000..10_003).map(|span| {
        let (began, mut tool) = (std::time::Instant::now(), Recorder { now: 2, ..Recorder::default() });
        let left = stack.exit_below(of(span), &[], &mut tool);
        assert_eq!(left.map(|left| left.reopened), Some(9_999 + 10_000 - span));
        began.elapsed()
    });
    let least = exits.min();
    assert!(least < Some(std::time::Duration::from_secs(1)), "{least:?}");
}

#[test]
fn ranges_of_other_domains_stay_open_and_no_time_is_counted_twice() {
    let (stack, mut tool) = (Stack::new(), Recorder { now: 160, ..Recorder::default() });
    let [outer, middle, other] = [Place::new(7, 1), Place::new(0, 2), Place::new(9, 3)];
    stack.push(1, outer, 100);
    stack.push(2, middle, 110);
    stack.push(3, other, 120);
    assert_eq!(stack.exit_below(of(2), &[], &mut tool).map(|left| left.reopened), Some(0));
    assert_eq!(tool.log, ["pop 2"]);
    assert_eq!(durations(&tool), [(2, 50, 40)], "40 of its 50 ticks were inside the range above");
    assert_eq!(stack.pop(200), Some(Ended { place: other, entered: 120, duration: 80, nested: 0 }));
    // 110..160 in the middle range, 160..200 in the other one: 90 of 110 ticks.
    assert_eq!(stack.pop(210), Some(Ended { place: outer, entered: 100, duration: 110, nested: 90 }));
}

#[test]
fn the_same_span_entered_twice_is_two_instances() {
    let stack = Stack::new();
    stack.push(1, name(1), 100);
    stack.push(1, name(1), 110);
    assert_eq!(stack.pop(120).map(|ended| ended.duration), Some(10));
    assert_eq!(stack.pop(130).map(|ended| ended.duration), Some(30));
}

#[test]
fn a_range_ended_elsewhere_is_closed_once_and_not_reopened() {
    let (stack, mut tool) = (Stack::new(), Recorder { now: 150, ..Recorder::default() });
    stack.push(1, name(1), 100);
    stack.push(2, name(2), 110);
    assert!(stack.holds(2));
    assert_eq!(stack.exit_below(of(1), &[(2, 140)], &mut tool).map(|left| left.reopened), Some(0));
    assert_eq!(tool.log, ["pop 2", "pop 1"]);
    assert_eq!((stack.depth(), stack.holds(2)), (0, false));
    assert_eq!(stack.exit_below(of(5), &[], &mut tool), None);
}

#[test]
fn an_entry_made_after_an_exit_elsewhere_is_not_meant_by_it() {
    let (stack, mut tool) = (Stack::new(), Recorder { now: 150, ..Recorder::default() });
    stack.push(1, name(1), 100);
    stack.push(2, name(2), 130);
    assert_eq!(stack.exit_below(of(1), &[(2, 120)], &mut tool).map(|left| left.reopened), Some(1));
    assert!(stack.is_top(2), "it was entered at 130, and goes on");
}

#[test]
fn a_new_window_starts_open_ranges_afresh() {
    let stack = Stack::new();
    stack.push(1, name(1), 100);
    stack.push(2, name(2), 110);
    stack.pop(150);
    stack.restart(200);
    assert_eq!(stack.pop(230), Some(Ended { place: name(1), entered: 200, duration: 30, nested: 0 }));
}

proptest! {
    /// Whatever the order of exits and the domains, the tool's stack of each domain stays balanced, self times are
    /// never negative, and together they cover exactly the time in which anything was open.
    #[test]
    fn self_times_sum_to_the_covered_time(
        steps in prop::collection::vec((any::<bool>(), 0usize..8, 0u32..3, 1u64..50), 1..80),
    ) {
        let (stack, mut tool) = (Stack::new(), Recorder::default());
        let mut open: Vec<u64> = Vec::new();
        let mut tool_stacks: [Vec<usize>; 3] = Default::default();
        let (mut covered, mut next) = (0, 1u64);
        let check = |tool: &mut Recorder, stacks: &mut [Vec<usize>; 3]| {
            for line in tool.log.drain(..) {
                let row: usize = line.split(' ').nth(1).unwrap().parse().unwrap();
                let domain = &mut stacks[row % 3];
                if line.starts_with("pop") { assert_eq!(domain.pop(), Some(row)); } else { domain.push(row); }
            }
        };
        for (enter, pick, domain, wait) in steps {
            tool.now += wait;
            if !open.is_empty() { covered += wait; }
            if enter || open.is_empty() {
                let row = next as u32 * 3 + domain;
                stack.push(next, Place::new(domain, row), tool.now);
                tool_stacks[domain as usize].push(row as usize);
                open.push(next);
                next += 1;
            } else {
                let span = open.remove(pick % open.len());
                if stack.is_top(span) {
                    let ended = stack.pop(tool.now).unwrap();
                    let row = ended.place.row();
                    prop_assert_eq!(tool_stacks[row % 3].pop(), Some(row));
                    tool.ended.push(ended);
                } else {
                    prop_assert!(stack.exit_below(of(span), &[], &mut tool).is_some());
                    check(&mut tool, &mut tool_stacks);
                }
            }
        }
        stack.unwind(&mut tool);
        check(&mut tool, &mut tool_stacks);
        prop_assert!(tool_stacks.iter().all(Vec::is_empty));
        prop_assert!(tool.ended.iter().all(|ended| ended.nested <= ended.duration));
        prop_assert_eq!(tool.ended.iter().map(|ended| ended.duration - ended.nested).sum::<u64>(), covered);
    }
}
