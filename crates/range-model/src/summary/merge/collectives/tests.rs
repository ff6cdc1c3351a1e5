//! Ranks that are made by hand. `tests/tests/ranks.rs` has whole programs.

use super::*;
use crate::{Note, Summary};

const MS: u64 = 1_000_000;

/// A rank on a host, and its operations of communicator 7.
#[derive(Clone)]
struct Made {
    rank: u32,
    host: &'static str,
    /// How far the clock is ahead, and by how much more in each second.
    ahead: [u64; 2],
    row: CommunicatorStats,
}

impl Made {
    fn new(rank: u32, host: &'static str) -> Self {
        let names = ["AllReduce", "Broadcast"].map(str::to_owned).to_vec();
        let part = |range: &str, state: &str| RangeState { range: Some(range.to_owned()), state: state.to_owned() };
        let parts = vec![part("prepare", "host code"), part("forward", "GPU work")];
        let row = CommunicatorStats { id: 7, names, parts, ..CommunicatorStats::default() };
        Self { rank, host, ahead: [0, 0], row }
    }

    /// Adds an operation: its name, its times in milliseconds, and how long `prepare` and `forward` took before.
    fn ran(&mut self, name: u32, [start, end]: [u64; 2], before: [u64; 2]) {
        let [ahead, drift] = self.ahead;
        let own = |ms: u64| ms * MS + ahead + drift * ms / 1_000;
        self.row.name.push(name);
        self.row.start_ns.push(own(start));
        self.row.time_ns.push(own(end) - own(start));
        self.row.alone_ns.push(own(end) - own(start));
        let before = (0..).zip(before).map(|(part, ms)| (part, ms * MS)).filter(|(_, ns)| *ns > 0);
        self.row.before.push(before.collect());
    }

    fn summary(self) -> Summary {
        let mut summary = Summary { elapsed_ns: 4_100 * MS, communicators: vec![self.row], ..Summary::default() };
        (summary.process.rank, summary.process.pid) = (Some(self.rank), 100 + self.rank);
        summary.process.host = self.host.to_owned();
        summary.process.started_unix_ns = 1_000_000 * MS;
        summary
    }
}

/// Steps of 100 ms. Rank 0 begins to reduce at 20 ms, the last rank at 50, and all end at 60.
fn ranks(count: u32, made: impl Fn(u32) -> Made) -> Vec<Made> {
    let mut ranks: Vec<Made> = (0..count).map(made).collect();
    for step in 0..40 {
        let at = 100 * step;
        for (rank, one) in ranks.iter_mut().enumerate() {
            let is_late = rank + 1 == count as usize;
            let (start, prepare) = if is_late { (50, 35) } else { (20, 5) };
            one.ran(0, [at + start, at + 60], [prepare, 15]);
        }
    }
    ranks
}

fn found(ranks: Vec<Made>) -> Lateness {
    Summary::merge(ranks.into_iter().map(Made::summary)).lateness.unwrap()
}

#[test]
fn the_last_rank_is_late_and_the_others_wait() {
    let lateness = found(ranks(2, |rank| Made::new(rank, "node")));
    let row = &lateness.operations[0];
    assert_eq!((row.name.as_str(), row.operations, lateness.unmatched), ("AllReduce", 39, 0), "without the first");
    assert_eq!((row.time_ns, row.waiting_ns, row.idle_ns), (39 * 50 * MS, 39 * 30 * MS, 39 * 30 * MS));
    assert_eq!(row.moving_ns(), 39 * 20 * MS);
    assert_eq!(lateness.ranks.iter().map(|rank| rank.idle_ns).collect::<Vec<_>>(), [39 * 30 * MS, 0]);
    let [late] = &lateness.late[..] else { panic!("{:?}", lateness.late) };
    assert_eq!((late.rank.as_str(), late.operations, late.of, late.others), ("rank 1", 39, 39, 1));
    assert_eq!((late.late_ns, late.waited_ns, late.cause_ns), (30 * MS, 39 * 30 * MS, 39 * 30 * MS));
    let cause = late.cause.as_ref().unwrap();
    assert_eq!((cause.range.as_deref(), cause.state.as_str()), (Some("prepare"), "host code"));
    let wait = &lateness.waits[0];
    assert_eq!((lateness.waits.len(), wait.process, wait.late, wait.wait_ns), (39, 0, 1, 30 * MS));
    assert_eq!(wait.late_start_ns - wait.start_ns, 30 * MS);
}

#[test]
fn the_order_of_the_summaries_does_not_matter() {
    let made = ranks(3, |rank| Made::new(rank, "node"));
    let mut turned = made.clone();
    turned.rotate_left(1);
    assert_eq!(found(turned), found(made));
}

#[test]
fn clocks_of_hosts_may_differ_and_drift() {
    let (same, other) = (["a", "a"], ["a", "b"]);
    let with = |hosts: [&'static str; 2], ahead| {
        found(ranks(2, |rank| Made {
            ahead: if rank == 1 { ahead } else { [0, 0] },
            ..Made::new(rank, hosts[rank as usize])
        }))
    };
    let plain = found(ranks(2, |rank| Made::new(rank, "node")));
    for ahead in [[10 * MS, 0], [10 * MS, 50_000]] {
        let lateness = with(other, ahead);
        let (late, expected) = (&lateness.late[0], &plain.late[0]);
        assert_eq!((lateness.unmatched, &late.rank, late.operations), (0, &expected.rank, 39));
        assert!(late.waited_ns.abs_diff(expected.waited_ns) < MS, "{ahead:?}: {late:?}");
        let lateness = with(same, ahead);
        assert_eq!((lateness.unmatched, lateness.late.len()), (39, 0), "one host has one clock: {ahead:?}");
    }
    assert_eq!(with(same, [4 * MS, 0]).unmatched, 0);
}

#[test]
fn operations_whose_ends_do_not_agree_are_not_judged() {
    let mut made = ranks(2, |rank| Made::new(rank, if rank == 0 { "a" } else { "b" }));
    for (step, time) in made[1].row.time_ns.iter_mut().enumerate() {
        *time += if step % 2 == 0 { 12 * MS } else { 0 };
    }
    let lateness = found(made);
    assert_eq!((lateness.unmatched, lateness.operations.len(), lateness.late.len()), (39, 0, 0));
}

/// Where much is not judged, the report says so.
#[test]
fn what_is_not_judged_is_told_if_it_is_a_tenth() {
    let notes = |wrong: usize| {
        let mut made = ranks(2, |rank| Made::new(rank, "node"));
        made[0].row.time_ns[40 - wrong..].fill(10 * MS);
        Summary::merge(made.into_iter().map(Made::summary)).notes
    };
    assert_eq!(notes(3), []);
    assert_eq!(notes(4), [Note::CollectivesNotCompared { operations: 4, compared: 35 }]);
}

#[test]
fn one_operation_that_ends_before_another_rank_begins_is_not_judged() {
    let mut made = ranks(2, |rank| Made::new(rank, "node"));
    made[0].row.time_ns[9] = 10 * MS; // up to 30 ms, and the last rank begins at 50
    let lateness = found(made);
    assert_eq!((lateness.unmatched, lateness.operations[0].operations), (1, 38));
}

#[test]
fn what_has_other_names_or_no_partner_is_not_judged() {
    let mut made = ranks(2, |rank| Made::new(rank, "node"));
    made[1].row.name[9] = 1;
    made.iter_mut().for_each(|one| one.row.name[12] = 1); // a broadcast on both: its root does not wait
    let row = &mut made[0].row;
    for column in [&mut row.start_ns, &mut row.time_ns, &mut row.alone_ns] {
        column.truncate(38);
    }
    let lateness = found(made);
    assert_eq!((lateness.unmatched, lateness.operations[0].operations), (3, 35));
    let mut alone = ranks(2, |rank| Made::new(rank, "node"));
    alone[1].row.id = 8;
    assert!(Summary::merge(alone.into_iter().map(Made::summary)).lateness.is_none(), "nothing is shared");
    let mut unknown = ranks(2, |rank| Made::new(rank, "node"));
    unknown[0].row.earlier = 5;
    unknown[1].row.earlier = 5;
    assert_eq!(found(unknown).operations[0].operations, 40, "the first ones are not listed any more");
}

#[test]
fn operations_behind_the_first_one_wait_for_the_start_too() {
    let mut made = ranks(2, |rank| Made::new(rank, "node"));
    for one in &mut made {
        let row = &mut one.row;
        row.start_ns[1] = row.start_ns[0] + row.time_ns[0] + 10_000; // right behind it
        row.time_ns[1] = 160 * MS - row.start_ns[1];
        row.alone_ns[1] = row.time_ns[1];
    }
    assert_eq!(found(made).operations[0].operations, 38);
}

/// The others wait while work runs beside the operation: that part costs them nothing.
#[test]
fn waiting_beside_work_is_not_idle() {
    let mut made = ranks(2, |rank| Made::new(rank, "node"));
    made[0].row.alone_ns.iter_mut().for_each(|ns| *ns = 28 * MS); // of 40, in which 30 are waiting
    let lateness = found(made);
    let row = &lateness.operations[0];
    assert_eq!((row.waiting_ns, row.idle_ns, lateness.late[0].waited_ns), (39 * 30 * MS, 39 * 18 * MS, 39 * 18 * MS));
}

/// What follows is late because of the first, for which the others' work went on beside it.
#[test]
fn a_second_bucket_is_late_because_of_the_first() {
    let mut made: Vec<Made> = (0..2).map(|rank| Made::new(rank, "node")).collect();
    for step in 0..40 {
        let at = 100 * step;
        // Rank 0 does the work for the second operation beside the first, rank 1 behind it.
        made[0].ran(0, [at + 20, at + 55], [5, 15]);
        *made[0].row.alone_ns.last_mut().unwrap() = 25 * MS;
        made[0].ran(0, [at + 55, at + 75], [0, 10]);
        made[1].ran(0, [at + 50, at + 55], [35, 15]);
        made[1].ran(0, [at + 65, at + 75], [0, 10]);
    }
    let late = found(made).late;
    assert_eq!((late[0].rank.as_str(), late[0].operations, late[0].of), ("rank 1", 39, 78));
    assert_eq!(late[0].waited_ns, 39 * (20 + 10) * MS);
    assert_eq!(late[0].cause.as_ref().and_then(|cause| cause.range.as_deref()), Some("prepare"));
}

#[test]
fn ranks_that_are_late_in_turn_are_not_named() {
    let mut made: Vec<Made> = (0..4).map(|rank| Made::new(rank, "node")).collect();
    for step in 0..40 {
        let at = 100 * step;
        for (rank, one) in made.iter_mut().enumerate() {
            let (start, prepare) = if step as usize % 4 == rank { (50, 35) } else { (20, 5) };
            one.ran(0, [at + start, at + 60], [prepare, 15]);
        }
    }
    let lateness = found(made);
    assert_eq!((lateness.late.len(), lateness.operations[0].idle_ns), (0, 39 * 3 * 30 * MS));
}

/// A wait of less than 1 % of the run is not worth a sentence.
#[test]
fn little_waiting_names_nobody() {
    let with = |elapsed: u64| {
        let mut all: Vec<Summary> = ranks(2, |rank| Made::new(rank, "node")).into_iter().map(Made::summary).collect();
        all.iter_mut().for_each(|one| one.elapsed_ns = elapsed);
        Summary::merge(all).lateness.unwrap().late.len()
    };
    assert_eq!([100, 101].map(|times| with(39 * 30 * MS * times)), [1, 0]);
}

/// Operations at such moments, in microseconds: of each rank, from when to when.
fn row(id: u64, times: impl Iterator<Item = [u64; 2]>) -> CommunicatorStats {
    let names = vec!["AllReduce".to_owned(), "AllGather".to_owned()];
    let part = |state: &str| RangeState { range: Some("part".to_owned()), state: state.to_owned() };
    let parts = vec![part("GPU work"), part(COLLECTIVES), part("host code")];
    let mut row = CommunicatorStats { id, names, parts, ..CommunicatorStats::default() };
    for [start, end] in times {
        row.name.push(0);
        row.start_ns.push(start * 1_000);
        row.time_ns.push((end - start) * 1_000);
        row.alone_ns.push((end - start) * 1_000);
        row.before.push(Vec::new());
    }
    row
}

fn of_rank(rank: u32, communicators: Vec<CommunicatorStats>) -> Summary {
    let made = Made { row: CommunicatorStats::default(), ..Made::new(rank, "node") };
    Summary { communicators, elapsed_ns: 2_500 * MS, ..made.summary() }
}

/// So many ranks, of which one arrives late in each step of 40 ms that counts.
fn late_in(ranks: u32, late: u32, counts: impl Fn(u64) -> bool + Copy) -> Vec<Summary> {
    let times = |rank: u32| {
        (0..60).map(move |step| {
            let at = 1_000_000 + 40_000 * step;
            [if rank == late && counts(step) { at + 14_000 } else { at }, at + 16_000]
        })
    };
    (0..ranks).map(|rank| of_rank(rank, vec![row(1, times(rank))])).collect()
}

/// Rank 3 waits each time in something that is not judged, as a pipeline is. That rank 2 was late for a moment in an
/// operation of the two explains nothing.
#[test]
fn lateness_is_not_passed_on_to_who_was_hardly_late() {
    let mut all = Vec::new();
    for rank in 0..4 {
        let world = (0..60).map(|step| 1_010_000 + 40_000 * step);
        let mut world = row(2, world.map(|at| [if rank == 3 { at + 14_000 } else { at }, at + 16_000]));
        world.before.fill(vec![(0, 9 * MS), (1, if rank == 3 { 14 * MS } else { 0 })]);
        let pair = (0..60).map(|step| 1_000_000 + 40_000 * step);
        let pair = row(1, pair.map(|at| [if rank == 2 { at + 30 } else { at }, at + 1_000]));
        all.push(of_rank(rank, if rank >= 2 { vec![pair, world] } else { vec![world] }));
    }
    assert_eq!(Summary::merge(all).lateness.unwrap().late, []);
}

/// Rank 1 launches late beside a long operation for which rank 0 was the last by a moment.
#[test]
fn lateness_behind_an_operation_is_that_of_who_was_late_then() {
    let mut all = Vec::new();
    for rank in 0..4 {
        let times = (0..60).map(|step| 1_000_000 + 60_000 * step).flat_map(|at| {
            let first = [if rank == 0 { at + 30 } else { at }, at + 20_000];
            [first, [if rank == 1 { at + 33_000 } else { at + 20_005 }, at + 34_000]]
        });
        let mut row = row(1, times);
        for (operation, before) in row.before.iter_mut().enumerate() {
            *before = vec![(0, if operation % 2 == 0 { 5 * MS } else { 15 * MS })];
        }
        row.alone_ns.iter_mut().step_by(2).for_each(|ns| *ns = if rank == 1 { 18 * MS } else { 5 * MS });
        all.push(of_rank(rank, vec![row]));
    }
    let late = Summary::merge(all).lateness.unwrap().late;
    assert_eq!((late.len(), late[0].rank.as_str(), late[0].operations), (1, "rank 1", 59));
    assert_eq!(late[0].late_ns, 12_995_000);
}

/// Who hardly waited is none of the others.
#[test]
fn the_others_are_those_that_waited() {
    let mut all = Vec::new();
    for rank in 0..8 {
        let pair = (0..60).map(|step| 1_000_000 + 40_000 * step);
        let pair = row(1, pair.map(|at| [if rank == 5 { at + 14_000 } else { at }, at + 16_000]));
        let world = (0..40).map(|step| (step, 1_000 + 20_000 * step));
        let world = row(2, world.map(|(step, at)| [if rank == 5 && step == 20 { at + 30 } else { at }, at + 1_000]));
        all.push(of_rank(rank, if rank == 4 || rank == 5 { vec![pair, world] } else { vec![world] }));
    }
    let late = Summary::merge(all).lateness.unwrap().late;
    assert_eq!((late.len(), late[0].rank.as_str(), late[0].others), (1, "rank 5", 1));
    assert_eq!((late[0].each_ns, late[0].waited_ns), (826_030_000, 826_030_000 + 6 * 30_000));
}

/// One pause of rank 0, while each rank is the last one now and then.
#[test]
fn a_pause_is_told_as_one() {
    let mut all = Vec::new();
    for rank in 0..8_u64 {
        let times = (0..600).map(|step| {
            let paused = if step > 300 { 500_000 } else { 0 };
            let at = 1_000_000 + 5_000 * step + paused;
            let late = if step * 7 % 8 == rank { 60 } else { 0 };
            let pause = if step == 300 { 500_000 } else { 0 };
            [at + if rank == 0 { late.max(pause) } else { late }, at + 200 + pause]
        });
        all.push(of_rank(rank as u32, vec![row(1, times)]));
    }
    let late = Summary::merge(all).lateness.unwrap().late;
    assert_eq!((late.len(), late[0].rank.as_str(), late[0].operations, late[0].of), (1, "rank 0", 1, 599));
    assert_eq!((late[0].late_ns, late[0].others), (500 * MS, 7));
    assert!(late[0].each_ns.abs_diff(500 * MS) < MS, "{late:?}");
}

#[test]
fn operations_of_several_names_have_none() {
    let mut all = late_in(2, 1, |step| step % 2 == 1);
    let named = |all: &[Summary]| {
        let late = Summary::merge(all.to_vec()).lateness.unwrap().late.remove(0);
        (late.name, late.operations, late.of)
    };
    assert_eq!(named(&all), ("AllReduce".to_owned(), 30, 59));
    let second = |name: &mut Vec<u32>| name.iter_mut().step_by(2).for_each(|name| *name = 1);
    all.iter_mut().for_each(|one| second(&mut one.communicators[0].name));
    assert_eq!(named(&all), ("AllReduce".to_owned(), 30, 30), "the others are of another name");
    let third = |name: &mut Vec<u32>| name.iter_mut().step_by(3).for_each(|name| *name = 1);
    all.iter_mut().for_each(|one| third(&mut one.communicators[0].name));
    assert_eq!(named(&all), (String::new(), 30, 59));
}

#[test]
fn a_file_that_is_given_twice_counts_once() {
    let mut all = late_in(2, 1, |_| true);
    let once = Summary::merge(all.clone()).lateness.unwrap().late;
    all.push(all[1].clone());
    assert_eq!(Summary::merge(all).lateness.unwrap().late, once);
}

/// A part that is not among the longest on other ranks is in the rest there.
#[test]
fn a_part_that_others_do_not_list_is_no_cause() {
    let mut all = late_in(4, 3, |_| true);
    for (rank, one) in all.iter_mut().enumerate() {
        let row = &mut one.communicators[0];
        row.parts.push(RangeState { range: None, state: "GPU work".to_owned() });
        row.before.fill(if rank == 3 { vec![(0, 10_500_000), (3, 20 * MS)] } else { vec![(3, 30 * MS)] });
    }
    assert_eq!(Summary::merge(all).lateness.unwrap().late[0].cause, None);
}

/// A file may hold any numbers.
#[test]
fn no_numbers_make_it_panic() {
    const MOST: u64 = u64::MAX;
    let numbers = [0, 1, 1_000, 1 << 53, 1 << 54, (1 << 54) + 1, 1 << 62, MOST / 2, MOST - 1, MOST];
    let mut random = 1_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..3_000 {
        let mut all = late_in(3, 2, |_| true);
        for one in &mut all {
            let limit = if next(3) == 0 { 5 } else { numbers.len() };
            let number = |next: &mut dyn FnMut(usize) -> usize| numbers[next(limit)];
            let row = &mut one.communicators[0];
            for _ in 0..4 {
                let (at, kind) = (next(60), next(7));
                match kind {
                    0 => row.start_ns[at] = number(&mut next),
                    1 => row.time_ns[at] = number(&mut next),
                    2 => row.alone_ns.fill(number(&mut next)),
                    3 => row.before.fill(vec![(next(5) as u32, number(&mut next)); 30]),
                    4 => row.earlier = number(&mut next),
                    5 => row.before.truncate(at),
                    _ => one.process.started_unix_ns = number(&mut next),
                }
            }
            if next(4) == 0 {
                row.time_ns.fill(1 << 54);
            }
            if next(4) == 0 {
                row.alone_ns.truncate(3);
            }
            let unknown = CommunicatorStats { earlier: number(&mut next), ..CommunicatorStats::default() };
            one.communicators.push(unknown);
        }
        let _any = Summary::merge(all);
    }
}
