//! Infers who ended the waits of one name: one claim, two if both fit, or none.

use std::time::Duration;

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::WaitStats;

use super::values;
use crate::clock::Rate;
use crate::core::drain::names::label_shown;
use crate::core::session::Names;
use crate::core::thresholds::LONG_WAIT;
use crate::parts::waits::session::asked_values::AskedValues;
use crate::parts::waits::thread::coincidence::{By, CERTAIN, Key, LATE, Sums, WINDOWS};

/// A claim needs so many moments at which waits ended, this percentage of them right after it, and this one of the
/// waits: with a moment, all of its queue is missed.
const MOMENTS: u64 = 10;
const PERCENT: u64 = 90;
const WAITS_PERCENT: u64 = 80;
/// How surely it is no chance: the logarithm of the odds. It is large because hundreds of names are asked about.
const SURPRISE: f64 = 20.0;
/// The name ends right before waits so many times as often as by chance: tasks that all go on after a pause end close
/// to each other, too, though none ends during the pause.
const LIFT: f64 = 6.0;
/// A name that explains less than this part (half) of what another one explains is left out; and where more than so
/// many explain the same waits, none is named.
const OTHER_PART: u64 = 2;
const CLAIMS: usize = 2;
/// A call that waits for the waiter ends with it, too, but later, and often has begun the wait. The cause did not begin
/// more than this part of the waits, and ends before them in at least this part of the moments. The second part is
/// enough where a moment ends so many waits, because waking them takes long.
const FIRST_PART: u64 = 2;
const FIRST_PART_OF_MANY: u64 = 10;
const AT_ONCE: u64 = 2;
/// Powers of two.
const LENGTHS: usize = 64;

/// Waits of one name after one other: those of at least 2 to the power of `octave` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Claim {
    by: By,
    window: u8,
    octave: u8,
    after: Sums,
    all: u64,
    /// How long all of these waits took, and what other waits of the name there are, of any length: their number, and
    /// how long they took.
    all_time: u64,
    others: [u64; 2],
}

impl Claim {
    /// How much longer the waits took than they would have otherwise, and the longest; 0 where that is not known. A
    /// range that only held the waiter's thread made a wait longer that would have taken some time anyway: as long as
    /// other waits of the name.
    fn time(&self) -> [u64; 2] {
        let Sums { waits, time, longest, filled, .. } = self.after;
        match self.others {
            _ if filled * 2 <= waits => [time, longest],
            [others, took] if others >= MOMENTS => {
                let usual = took / others;
                [time.saturating_sub(usual.saturating_mul(waits)), longest.saturating_sub(usual)]
            }
            _ => [0; 2],
        }
    }
}

pub(crate) fn inferred(rows: &[(Key, Sums)], (names, asked): (&Names, &AskedValues), rate: Rate) -> Vec<WaitStats> {
    let mut all: Keyed<u32, Keyed<Key, Sums>> = Keyed::default();
    for (key, sums) in rows {
        all.row(key.waiter).row(*key).add(sums);
    }
    let mut found = Vec::new();
    for (waiter, rows) in all.iter() {
        let row = |(claim, value): (Claim, Option<String>), (all, claimed): (u64, u64)| {
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let window = ns(WINDOWS[usize::from(claim.window)]);
            let before_ns = if claim.window < LATE { 0 } else { window / 2 };
            // Where two fit, a wait counts once.
            let [time, longest] =
                claim.time().map(|time| u128::from(time) * u128::from(all.min(claimed)) / u128::from(claimed.max(1)));
            let [time, longest] = [time, longest].map(|ticks| rate.ns(ticks));
            let mut row = WaitStats::new(
                label_shown(names, *waiter),
                Some(label_shown(names, claim.by.label)),
                claim.after.waits,
                time,
                longest,
            );
            row.of_waits = Some(claim.all);
            row.by_chance = Some(claim.after.by_chance.div_ceil(CERTAIN));
            row.over_ns = Some((1_u64 << claim.octave).max(ns(LONG_WAIT)));
            row.within_ns = Some(window - before_ns);
            row.before_ns = (before_ns > 0).then_some(before_ns);
            if value.is_some() {
                (row.value_waits, row.value_time_ns) = (Some(row.waits), Some(row.time_ns));
            }
            row.by_value = value;
            row
        };
        let mut claims: Vec<_> = claims(rows).into_iter().map(|claim| (claim, None)).in_vec();
        let telling = telling_values(rows);
        let texts = asked.texts(telling.iter().map(|claim| claim.by.code));
        if let (Some(&claim), false) = (telling.first(), texts.is_empty()) {
            claims.retain(|(of_name, _)| of_name.by.label != claim.by.label);
            claims.push((claim, Some(texts)));
        }
        let all = claims.iter().map(|(claim, _)| claim.all_time).largest();
        let claimed = claims.iter().fold(0, |sum: u64, (claim, _)| sum.saturating_add(claim.time()[0]));
        found.extend(claims.into_iter().map(|claim| row(claim, (all, claimed))));
    }
    found
}

/// The claims about the waits of one name, from its rows: by names alone.
fn claims(rows: &Keyed<Key, Sums>) -> Vec<Claim> {
    let mut claims = all_claims(rows, |by| by.code == 0 && *by != By::ANY);
    order::by_most(&mut claims, |claim| claim.after.time);
    let most = claims.first().map_or(0, |claim| claim.after.time);
    claims.retain(|claim| claim.after.time >= most / OTHER_PART);
    if claims.len() > CLAIMS { Vec::new() } else { claims }
}

/// The values whose calls ended the waits of one name, if they tell these from the calls that waited.
fn telling_values(rows: &Keyed<Key, Sums>) -> Vec<Claim> {
    let claims = all_claims(rows, |by| by.code != 0 && *by != By::any_value(by.label));
    // A call with the value did not wait for the value.
    let explained = |claim: &Claim| (claim.after.waits as f64 / claim.all as f64, [claim.after.own, claim.after.waits]);
    values::most_telling(claims, explained)
}

/// Whether a value is more frequent among calls that end waits than among those that wait, and that is no chance. Of
/// these waits, those of calls with the value count as no hit.
fn is_telling(after: &Sums, all: &Sums) -> bool {
    let others = all.waits.saturating_sub(after.own);
    let may_wait = after.began_with * FIRST_PART > after.waits;
    if may_wait || after.moments < MOMENTS || after.waits * 100 < others * WAITS_PERCENT {
        return false;
    }
    let is_rare = after.waits as f64 * all.waits as f64 >= values::TELLS as f64 * after.own as f64 * others as f64;
    is_rare && is_surprise(after, after.waits as f64 / others as f64, after.moments)
}

fn all_claims(rows: &Keyed<Key, Sums>, is_asked: fn(&By) -> bool) -> Vec<Claim> {
    // By name and window: the waits of at least each length.
    let mut longer: Keyed<(By, u8), Vec<Sums>> = Keyed::default();
    for (key, row) in rows.iter() {
        let by_length = longer.row_or((key.by, key.window), || vec![Sums::default(); LENGTHS]);
        by_length.iter_mut().take(usize::from(key.octave) + 1).for_each(|sums| sums.add(row));
    }
    let longer = |by: By, window: u8, octave: u8| {
        let by_length = longer.get(&(by, window));
        by_length.and_then(|sums| sums.get(usize::from(octave))).copied().unwrap_or_default()
    };
    let mut lengths: Vec<(u8, u8)> = rows.iter().map(|(key, _)| (key.octave, key.window)).in_vec();
    order::by_key(&mut lengths, |length| *length);
    lengths.dedup();
    let mut names: Vec<By> = rows.iter().map(|(key, _)| key.by).filter(is_asked).in_vec();
    names.dedup();
    let claim = |by: By| {
        // The lengths at which it explains the most waits, and most closely: short waits may have other causes.
        lengths.iter().find_map(|&(octave, window)| {
            let any = if by.code == 0 { By::ANY } else { By::any_value(by.label) };
            let (after, all) = (longer(by, window, octave), longer(any, window, octave));
            let is_first = |early| is_first(&longer(by, early, octave), &longer(By::ANY, early, octave));
            // A range that fills each wait may run during waits for something else, too: other waits must lack it.
            let [of_any, of_name] = [any, by].map(|by| longer(by, window, 0));
            let without = of_any.waits.saturating_sub(of_name.waits);
            let may_fill_all = after.held * 2 > after.waits && without < after.waits;
            let is_cause = after.began_with * FIRST_PART <= after.waits
                && !may_fill_all
                && window.checked_sub(LATE).is_none_or(is_first);
            let is_claimed = match by.code {
                0 => is_cause && is_no_chance(&after, &all),
                _ => is_telling(&after, &all),
            };
            let others = [without, of_any.time.saturating_sub(of_name.time)];
            let (all, all_time) = (all.waits.saturating_sub(after.own), all.time);
            is_claimed.then_some(Claim { by, window, octave, after, all, all_time, others })
        })
    };
    names.into_iter().filter_map(claim).in_vec()
}

/// Whether a name ends before the waits often enough to be their cause.
fn is_first(first: &Sums, all: &Sums) -> bool {
    let part = if all.waits >= all.moments * AT_ONCE { FIRST_PART_OF_MANY } else { FIRST_PART };
    let hit = first.moments as f64 / all.moments as f64;
    hit * part as f64 >= 1.0 && hit >= LIFT * chance(first)
}

/// How often chance alone would give it.
fn chance(after: &Sums) -> f64 {
    after.by_chance as f64 / (CERTAIN * after.waits) as f64
}

/// Whether waits end too often right after a name for chance to be the reason.
fn is_no_chance(after: &Sums, all: &Sums) -> bool {
    let is_rare = after.moments < MOMENTS || after.moments * 100 < all.moments * PERCENT;
    if is_rare || after.waits * 100 < all.waits * WAITS_PERCENT {
        return false;
    }
    is_surprise(after, after.moments as f64 / all.moments as f64, all.moments)
}

/// Whether such a part of so many moments is too much for chance.
fn is_surprise(after: &Sums, hit: f64, moments: u64) -> bool {
    let chance = chance(after).max(1.0 / after.waits as f64).min(1.0);
    // Chernoff's bound of the odds that so many of so many moments are hits by chance.
    let missed = if hit < 1.0 { (1.0 - hit) * ((1.0 - hit) / (1.0 - chance)).ln() } else { 0.0 };
    hit >= LIFT * chance && moments as f64 * (hit * (hit / chance).ln() + missed) >= SURPRISE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::parts::waits::session::endings::AllEndings;
    use crate::parts::waits::thread::coincidence::{Coincidences, Waiter};

    const TIME: u64 = 1 << 24;

    fn sums(waits: u64, moments: u64, chance_percent: u64) -> Sums {
        let by_chance = waits * CERTAIN * chance_percent / 100;
        Sums { waits, by_chance, time: waits * TIME, longest: TIME, moments, ..Sums::default() }
    }

    const ANY: u32 = By::ANY.label;

    fn key(by: u32, octave: u8) -> Key {
        Key { waiter: 7, by: By::label(by), window: 0, octave }
    }

    fn named(rows: &[(Key, Sums)]) -> Vec<(u32, u8, u64)> {
        let mut all = Keyed::default();
        rows.iter().for_each(|(key, sums)| _ = all.insert(*key, *sums));
        claims(&all).iter().map(|claim| (claim.by.label, claim.octave, claim.after.waits)).collect()
    }

    #[test]
    fn a_name_after_which_all_long_waits_end_is_claimed_for_these() {
        let (long, short) = (key(ANY, 30), key(ANY, 22));
        let rows = [(long, sums(68, 60, 0)), (short, sums(900, 900, 0)), (key(1, 30), sums(68, 60, 1))];
        assert_eq!(named(&rows), [(1, 30, 68)]);
        let with_short = [&rows[..], &[(key(1, 22), sums(870, 870, 1))]].concat();
        assert_eq!(named(&with_short), [(1, 22, 938)]);
        // Another that is there as often by chance.
        let beside = [&rows[..], &[(key(2, 30), sums(62, 55, 80)), (key(3, 30), sums(54, 48, 24))]].concat();
        assert_eq!(named(&beside), [(1, 30, 68)]);
    }

    /// Waits of 1 to 5 ms, most of which end right after a range of one name, and all of them some time after one of
    /// another name.
    #[test]
    fn verdicts_do_not_depend_on_the_rate_of_the_clock() {
        let found = |ticks_a_second: u64, share: u64| {
            let clock = Clock::of_rate(ticks_a_second);
            let (all, coincidences) = (AllEndings::new(&clock), Coincidences::default());
            let ticks = |us: u64| clock.ticks(Duration::from_micros(us));
            let ended = |thread, label, begun, end| {
                let mark = |at| all.unit.mark(label, at);
                let endings = all.make(thread).expect("there is room");
                endings.end(mark(end), [mark(begun), mark(begun), None], Default::default());
            };
            let mut now = ticks(1_000_000);
            for number in 0..100 {
                let (since, wait) = (now, 1_000 + number * 40);
                let late = if number % 10 < share { 100 } else { 700 };
                now += ticks(wait);
                ended(1, 1, since - ticks(300), now - ticks(late));
                ended(2, 2, since - ticks(300), now - ticks(900));
                coincidences.clear_pause();
                coincidences.look((&all, &clock), (7, Waiter::Call(None, None)), [since, now]);
                now += ticks(500_000);
            }
            let mut rows = Keyed::default();
            coincidences.copy().into_iter().for_each(|(key, sums)| _ = rows.insert(key, sums));
            claims(&rows).iter().map(|claim| (claim.by, claim.window, claim.octave, claim.after.waits)).collect()
        };
        for share in 0..=10 {
            let [first, others @ ..]: [Vec<_>; 3] =
                [24_000_000, 1_000_000_000, 2_600_000_000].map(|rate| found(rate, share));
            assert_eq!(others, [first.clone(), first.clone()], "{share} in ten waits");
            let names: Vec<_> = first.iter().map(|(by, window, ..)| (by.label, *window)).collect();
            assert_eq!(names, if share >= 9 { vec![(1, 0)] } else { vec![(1, 1), (2, 1)] }, "{share}");
        }
    }

    #[test]
    fn few_moments_prove_nothing_however_many_waits_they_end() {
        let all = |waits, moments| [(key(ANY, 30), sums(waits, moments, 0)), (key(1, 30), sums(waits, moments, 1))];
        assert_eq!(named(&all(400, 9)), []);
        assert_eq!(named(&all(400, 10)), [(1, 30, 400)]);
        assert_eq!(named(&[]), []);
    }

    #[test]
    fn where_two_fit_both_are_named_and_where_more_fit_none() {
        let rows: Vec<_> = (0..3).map(|by| (key(by, 30), sums(50, 50, 2))).collect();
        let with = |count: usize| [&rows[..count], &[(key(ANY, 30), sums(50, 50, 0))]].concat();
        assert_eq!(named(&with(2)).len(), 2);
        assert_eq!(named(&with(3)), []);
    }

    #[test]
    fn what_is_as_likely_by_chance_is_not_claimed() {
        for (hits, of, chance_percent, expected) in
            [(20, 20, 16, true), (20, 20, 18, false), (18, 20, 10, true), (17, 20, 1, false), (200, 200, 95, false)]
        {
            let all = [(key(ANY, 30), sums(of, of, 0)), (key(1, 30), sums(hits, hits, chance_percent))];
            assert_eq!(!named(&all).is_empty(), expected, "{hits} of {of} at {chance_percent} %");
        }
    }

    #[test]
    fn what_only_held_the_thread_is_claimed_where_other_waits_did_without_it() {
        let with = |held: u64, short: u64| {
            let found = Sums { held, ..sums(50, 50, 1) };
            named(&[(key(ANY, 30), sums(50, 50, 0)), (key(ANY, 22), sums(short, short, 0)), (key(1, 30), found)])
        };
        let claimed = [(1, 30, 50)];
        assert_eq!(with(50, 50), claimed);
        assert_eq!(with(50, 49), [], "it may fill all waits for something else");
        assert_eq!(with(25, 49), claimed, "half of the times it had begun before");
        assert_eq!(with(26, 49), []);
    }

    /// A timer would have ended it, or a message.
    #[test]
    fn what_held_the_thread_made_a_wait_longer_by_what_exceeds_other_waits() {
        let longer = |waits: u64, filled: u64, others: u64| {
            let mut rows = Keyed::default();
            let after = Sums { filled, ..sums(waits, waits, 1) };
            let other = Sums { time: others * TIME / 4, ..sums(others, others, 0) };
            for (key, sums) in [(key(ANY, 24), sums(waits, waits, 0)), (key(1, 24), after), (key(ANY, 22), other)] {
                _ = rows.insert(key, sums);
            }
            let claims = claims(&rows);
            let [claim] = claims[..] else { panic!("{claims:?}") };
            claim.time()
        };
        assert_eq!(longer(50, 50, 50), [50 * TIME / 4 * 3, TIME / 4 * 3]);
        assert_eq!(longer(50, 26, 10), [50 * TIME / 4 * 3, TIME / 4 * 3]);
        assert_eq!(longer(50, 26, 9), [0; 2], "how long they take otherwise is not known");
        assert_eq!(longer(50, 25, 50), [50 * TIME, TIME], "it mostly ended the waits");
    }

    #[test]
    fn who_goes_on_with_the_waiter_is_not_the_cause() {
        let late = |by: u32| Key { window: LATE, ..key(by, 30) };
        let with = |moments: u64, first: (u64, u64), began_with: u64| {
            let (all, found) = (sums(50, moments, 0), Sums { began_with, ..sums(50, moments, 1) });
            let first = sums(first.0, first.0, first.1);
            named(&[(key(ANY, 30), all), (late(ANY), all), (key(1, 30), first), (late(1), found)])
        };
        let claimed = [(1, 30, 50)];
        assert_eq!(with(50, (25, 1), 25), claimed);
        assert_eq!(with(50, (24, 1), 0), [], "it ends later than the waiter");
        assert_eq!(with(50, (25, 1), 26), [], "it began the wait");
        assert_eq!(with(20, (2, 1), 0), claimed, "it has to wake many");
        assert_eq!(with(20, (1, 1), 0), [], "it ends later than all of them");
        assert_eq!(with(20, (2, 2), 0), [], "it ends first as often by chance");
    }

    #[test]
    fn a_value_is_claimed_by_waits_of_tasks_without_it() {
        let with = |waits: u64, moments: u64, own: u64, chance_percent: u64, all: u64| {
            let found = Sums { own, ..sums(waits, moments, chance_percent) };
            let mut rows = Keyed::default();
            for (code, sums) in [(5, found), (By::any_value(3).code, sums(all, 0, 0))] {
                _ = rows.insert(Key { by: By { label: 3, code }, ..key(3, 30) }, sums);
            }
            telling_values(&rows).iter().map(|claim| (claim.by.code, claim.after.waits, claim.all)).collect::<Vec<_>>()
        };
        let claimed = [(5, 100, 110)];
        assert_eq!(with(100, 12, 40, 1, 150), claimed);
        assert_eq!(with(100, 9, 40, 1, 150), [], "few ends");
        assert_eq!(with(87, 12, 40, 1, 150), [], "many other waits");
        assert_eq!(with(100, 12, 90, 1, 200), claimed, "nearly half of who waited has it");
        assert_eq!(with(100, 12, 95, 1, 205), [], "more of them");
        assert_eq!(with(100, 12, 40, 16, 150), [], "by chance");
        let began_with = |began_with: u64| is_telling(&Sums { began_with, ..sums(100, 12, 1) }, &sums(110, 0, 0));
        assert!(began_with(50) && !began_with(51), "it began with the waits");
    }
}
