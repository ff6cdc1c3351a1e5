//! The values of fields by which calls that made others of their name wait differ from the waiters.

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::WaitStats;

use crate::clock::Rate;
use crate::core::drain::names::label_shown;
use crate::core::session::Names;
use crate::parts::waits::session::asked_values::AskedValues;
use crate::parts::waits::thread::waits::ValueSums;

/// A value tells calls apart if it is so many times as frequent among the causes as among the waiters.
pub(crate) const TELLS: u64 = 2;
/// A claim needs so many waits.
const WAITS: u64 = 10;
/// A value that explains this part of what another one explains, and is rarer among the waiters, is the better one.
const NEARLY: f64 = 0.9;

/// Where calls waited for others of their own name: names the values of the calls that caused most of that time.
pub(crate) fn tell(
    rows: &mut [WaitStats],
    sums: &[([u32; 2], ValueSums)],
    (names, asked): (&Names, &AskedValues),
    rate: Rate,
) {
    let mut all: Keyed<[u32; 2], ValueSums> = Keyed::default();
    for (key, more) in sums {
        let row = all.row(*key);
        (row.waits, row.same, row.time) = (row.waits + more.waits, row.same + more.same, row.time + more.time);
    }
    for row in rows.iter_mut().filter(|row| row.by.as_ref() == Some(&row.waiter)) {
        let ns = |sums: &ValueSums| rate.ns(u128::from(sums.time));
        let is_telling = |([label, _], sums): &(&[u32; 2], &ValueSums)| {
            is_telling(sums, ns(sums), row.time_ns) && label_shown(names, *label) == row.waiter
        };
        let telling = all.iter().filter(is_telling).map(|([_, code], sums)| (*code, *sums)).in_vec();
        let best = most_telling(telling, |(_, sums)| (sums.time as f64, [sums.same, sums.waits]));
        let text = asked.texts(best.iter().map(|(code, _)| *code));
        if let (Some((_, sums)), false) = (best.first(), text.is_empty()) {
            row.by_value = Some(text);
            (row.value_waits, row.value_time_ns) = (Some(sums.waits), Some(ns(sums)));
        }
    }
}

/// Whether calls with a value caused most of this time, and the value is rarer among the waiters.
fn is_telling(sums: &ValueSums, part_ns: u64, all_ns: u64) -> bool {
    let [waits, same, part, all] = [sums.waits, sums.same, part_ns, all_ns].map(u128::from);
    sums.waits >= WAITS && part * 2 >= all && part * waits >= u128::from(TELLS) * same * all
}

/// The best of several values: among those that explain nearly the most, the rarest one among the waiters. `explained`
/// returns how much a value explains, and how many waits its calls had and caused. Several values if both are equal.
pub(crate) fn most_telling<T: Copy>(mut all: Vec<T>, explained: impl Fn(&T) -> (f64, [u64; 2])) -> Vec<T> {
    let most = all.iter().map(|one| explained(one).0).fold(0.0, f64::max);
    all.retain(|one| explained(one).0 >= most * NEARLY);
    order::by_key(&mut all, |one| explained(one).1);
    let best = all.first().map(|best| explained(best).1);
    all.retain(|one| Some(explained(one).1) == best);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_waiters_have_as_well_tells_nothing() {
        let telling = |waits, same, part, all| is_telling(&ValueSums { waits, same, time: 0 }, part, all);
        assert!(telling(40, 0, 50, 100) && telling(40, 10, 50, 100));
        assert!(!telling(40, 11, 50, 100), "half of the time, and more than a quarter of who waited");
        assert!(telling(40, 20, 100, 100) && !telling(40, 40, 100, 100));
        assert!(!telling(40, 0, 49, 100), "less than half of the time");
        assert!(!telling(9, 0, 100, 100), "few waits");
    }

    #[test]
    fn the_rarest_value_of_those_that_explain_nearly_the_most_is_named() {
        let of = |all: &[(f64, [u64; 2])]| most_telling(all.to_vec(), |one| *one);
        let (path, method, half) = ((95.0, [0, 40]), (100.0, [9, 50]), (50.0, [0, 20]));
        assert_eq!(of(&[method, path, half]), [path]);
        assert_eq!(of(&[path, path]), [path, path], "two that explain the same");
        assert_eq!(of(&[]), []);
    }
}
