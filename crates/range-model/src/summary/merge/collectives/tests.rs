//! Ranks that are made by hand. `tests/tests/ranks.rs` has whole programs.

use super::*;
use crate::Summary;

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
        let part = |range: &str, state: &str| TimePart { range: Some(range.to_owned()), state: state.to_owned() };
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
    assert_eq!(notes(3), [""; 0]);
    let note = &notes(4)[0];
    assert!(
        note.starts_with("4 collective operations of NCCL are not compared between ranks (and 35 are): "),
        "{note}"
    );
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
