//! Compares joined tables with tables computed from all instances.

use std::collections::BTreeMap;

use super::process::{Instances, KINDS, Raw, bytes, domain, name, process, style, summary, work};
use super::statistics;
use crate::summary::merge::{
    Merged, NodeTotals, PhaseLabel, Projected, RangeLabel, StreamLabel, StreamTimes, WorkPart,
};
use crate::{GpuWork, MemoryKind, NodeCalls, NodeWork, RangeStats, Sizes, Summary, Times, TreeNode};
use proptest::prelude::*;

/// Compares a table with one that is computed from all instances of all processes.
fn same<K: PartialEq + std::fmt::Debug, V>(
    table: &[Merged<K, V>],
    processes: &[Option<&Raw>],
    key: impl Fn(u8) -> K,
    figures: impl Fn(&V) -> (u64, u64, u64, u64, Option<f64>, f64),
    values: impl Fn(&[u64]) -> Vec<u64>,
) -> Result<(), TestCaseError> {
    let mut rows = 0;
    for number in 0..5 {
        let parts: Vec<(usize, Vec<u64>)> = processes
            .iter()
            .enumerate()
            .filter_map(|(process, raw)| Some((process, values(raw.as_ref()?.get(&number)?))))
            .collect();
        if parts.is_empty() {
            continue;
        }
        rows += 1;
        let row = table.iter().find(|row| row.key == key(number));
        let row = row.ok_or_else(|| TestCaseError::fail(format!("no row {:?}", key(number))))?;
        let everything: Vec<u64> = parts.iter().flat_map(|(_, values)| values.iter().copied()).collect();
        let (count, total, least, greatest, median, deviation) = statistics(&everything);
        let found = figures(&row.all);
        prop_assert_eq!((found.0, found.1, found.2, found.3), (count, total, least, greatest));
        prop_assert!((found.5 - deviation).abs() <= 1e-6 * deviation.max(1.0), "{} {}", found.5, deviation);
        prop_assert_eq!(found.4, (parts.len() == 1).then_some(median));
        let medians: Vec<f64> = parts.iter().map(|(_, values)| statistics(values).4).collect();
        let bounds = (medians.iter().copied().fold(f64::MAX, f64::min), medians.iter().copied().fold(0.0, f64::max));
        prop_assert_eq!(row.median_bounds, Some(bounds));
        prop_assert!((bounds.0..=bounds.1).contains(&median), "{} is not within {:?}", median, bounds);
        let ranks: Vec<(usize, u64, u64)> = row.ranks.iter().map(|r| (r.process, r.instances, r.total)).collect();
        let expected: Vec<(usize, u64, u64)> =
            parts.iter().map(|(process, values)| (*process, values.len() as u64, values.iter().sum())).collect();
        prop_assert_eq!(&ranks, &expected);
        let most = expected.iter().map(|rank| rank.2).max();
        let slowest = expected.iter().find(|rank| Some(rank.2) == most).map(|rank| rank.0);
        prop_assert_eq!(row.ranks.slowest().map(|rank| rank.process), slowest);
        prop_assert_eq!(row.ranks.fastest().map(|rank| rank.total), expected.iter().map(|rank| rank.2).min());
    }
    prop_assert_eq!(table.len(), rows);
    prop_assert!(table.windows(2).all(|pair| figures(&pair[0].all).1 >= figures(&pair[1].all).1), "by total");
    Ok(())
}

fn of_times(times: &Times) -> (u64, u64, u64, u64, Option<f64>, f64) {
    (times.instances, times.total_ns, times.min_ns, times.max_ns, times.median_ns, times.stddev_ns)
}

/// The nodes of a tree by their paths.
fn paths(tree: &[Merged<PhaseLabel, NodeTotals>]) -> BTreeMap<Vec<String>, &Merged<PhaseLabel, NodeTotals>> {
    let mut path: Vec<String> = Vec::new();
    let mut all = BTreeMap::new();
    for node in tree {
        path.truncate(node.key.depth);
        path.push(node.key.name.clone());
        assert_eq!(path.len(), node.key.depth + 1, "a node comes after the one above it");
        all.insert(path.clone(), node);
    }
    all
}

fn merge(all: &[Instances]) -> crate::MergedSummary {
    Summary::merge(all.iter().zip(0..).map(|(raw, rank)| summary(rank, raw)))
}

fn as_they_are(values: &[u64]) -> Vec<u64> {
    values.to_vec()
}

fn range(number: u8) -> RangeLabel {
    RangeLabel { domain: domain(number), name: name(number), style: style(number) }
}

fn cpu_tables(all: &[Instances]) -> Result<(), TestCaseError> {
    let merged = merge(all);
    let of = |of: fn(&Instances) -> &Raw| -> Vec<Option<&Raw>> { all.iter().map(|raw| Some(of(raw))).collect() };
    let stream = |n| StreamLabel { domain: domain(n), name: name(n), stream: format!("#{}", n % 2) };
    same(&merged.ranges, &of(|raw| &raw.ranges), range, of_times, as_they_are)?;
    same(&merged.stream_ranges, &of(|raw| &raw.streams), stream, |all| of_times(&all.times), as_they_are)?;
    same(&merged.categories, &of(|raw| &raw.categories), |n| n.to_string(), of_times, as_they_are)
}

fn gpu_tables(all: &[Instances]) -> Result<(), TestCaseError> {
    let merged = merge(all);
    prop_assert_eq!(merged.gpu.is_some(), all.iter().any(|raw| raw.has_gpu));
    let Some(gpu) = &merged.gpu else { return Ok(()) };
    let of = |of: fn(&Instances) -> Option<&Raw>| -> Vec<Option<&Raw>> {
        all.iter().map(|raw| of(raw).filter(|_| raw.has_gpu)).collect()
    };
    let (kernels, calls) = (of(|raw| Some(&raw.kernels)), of(|raw| raw.calls.as_ref()));
    same(&gpu.kernels, &kernels, |n| n.to_string(), of_times, as_they_are)?;
    prop_assert_eq!(gpu.calls.is_some(), calls.iter().any(Option::is_some));
    same(gpu.calls.as_deref().unwrap_or_default(), &calls, |n| n.to_string(), of_times, as_they_are)?;
    let projections = of(|raw| Some(&raw.projections));
    same(&gpu.projections, &projections, range, |all| of_times(&all.times), as_they_are)?;
    for row in &gpu.projections {
        let Projected { times, range_total_ns, operations, level_sum, children_sum } = &row.all;
        let expected = (2 * times.total_ns, 3 * times.instances, times.instances, 5 * times.instances);
        prop_assert_eq!((*range_total_ns, *operations, *level_sum, *children_sum), expected);
    }
    let memory = of(|raw| Some(&raw.memory));
    let kind = |n: u8| KINDS.get(usize::from(n)).copied();
    same(&with_known_key(&gpu.memory_times), &memory, kind, of_times, as_they_are)?;
    same(&with_known_key(&gpu.memory_sizes), &memory, kind, of_sizes, bytes)?;
    // The busy time of a process is half of its total time, rounded down.
    let kernels = kernels.into_iter().flatten().map(|raw| raw.values().flatten().copied().collect());
    let kernels: Vec<Vec<u64>> = kernels.collect();
    let (everything, busy) = (kernels.concat(), kernels.iter().map(|all| all.iter().sum::<u64>() / 2).sum());
    match gpu.work.iter().find(|row| row.key == WorkPart::All) {
        Some(row) => {
            let operations = kernels.iter().filter(|all| !all.is_empty()).count() as u64;
            let mut expected = GpuWork { busy_ns: busy, ..work(&everything) };
            expected.memory[0].operations = operations;
            prop_assert_eq!((&row.all, row.ranks.total()), (&expected, busy));
        }
        None => prop_assert!(everything.is_empty()),
    }
    Ok(())
}

fn of_sizes(all: &Sizes) -> (u64, u64, u64, u64, Option<f64>, f64) {
    (all.count, all.total_bytes, all.min_bytes, all.max_bytes, all.median_bytes, all.stddev_bytes)
}

fn with_known_key<V: Clone>(table: &[Merged<MemoryKind, V>]) -> Vec<Merged<Option<MemoryKind>, V>> {
    let known = |row: &Merged<MemoryKind, V>| Merged {
        key: Some(row.key),
        all: row.all.clone(),
        median_bounds: row.median_bounds,
        ranks: row.ranks.clone(),
    };
    table.iter().map(known).collect()
}

/// The figures of one process by path; nodes on the way to another have none of their own.
fn nodes_of(raw: &Instances) -> BTreeMap<Vec<String>, NodeTotals> {
    let mut all: BTreeMap<Vec<String>, NodeTotals> = BTreeMap::new();
    for (path, durations) in &raw.tree {
        let path: Vec<String> = path.iter().map(|number| name(2 * number)).collect();
        for depth in 1..path.len() {
            all.entry(path[..depth].to_vec()).or_default();
        }
        let total = durations.iter().sum::<u64>();
        let totals = all.entry(path).or_default();
        totals.calls = 1;
        totals.instances = durations.len() as u64;
        (totals.total_ns, totals.self_ns) = (total, total / 3);
        totals.blocked_ns = total / 5;
        (totals.stream_total_ns, totals.stream_self_ns) = (durations.first().copied(), durations.last().copied());
        totals.max_ns = durations.iter().copied().max().unwrap_or(0);
        (totals.awaited_ns, totals.awaited_self_ns) = (durations.get(1).copied(), durations.get(2).copied());
        totals.gpu = (durations.len() > 1).then(|| NodeWork {
            own: work(&durations[1..]),
            total: work(durations),
            calls: vec![NodeCalls { name: "cuLaunchKernel".to_owned(), calls: 1, total_ns: durations[0] }],
            ..NodeWork::default()
        });
    }
    all
}

/// Adds one to another, field by field.
fn add(all: &mut NodeTotals, one: NodeTotals) {
    all.calls += one.calls;
    all.instances += one.instances;
    all.total_ns += one.total_ns;
    all.self_ns += one.self_ns;
    all.blocked_ns += one.blocked_ns;
    all.max_ns = all.max_ns.max(one.max_ns);
    for (all, one) in [
        (&mut all.awaited_ns, one.awaited_ns),
        (&mut all.awaited_self_ns, one.awaited_self_ns),
        (&mut all.stream_total_ns, one.stream_total_ns),
        (&mut all.stream_self_ns, one.stream_self_ns),
    ] {
        if let Some(ns) = one {
            *all.get_or_insert(0) += ns;
        }
    }
    let Some(gpu) = one.gpu else { return };
    let Some(sum) = &mut all.gpu else { return all.gpu = Some(gpu) };
    for (sum, one) in [(&mut sum.own, &gpu.own), (&mut sum.total, &gpu.total)] {
        sum.operations += one.operations;
        sum.sum_ns += one.sum_ns;
        sum.busy_ns += one.busy_ns;
        sum.memory[0].operations += one.memory[0].operations;
        sum.memory[0].sum_ns += one.memory[0].sum_ns;
        sum.memory[0].bytes += one.memory[0].bytes;
    }
    sum.calls[0].calls += gpu.calls[0].calls;
    sum.calls[0].total_ns += gpu.calls[0].total_ns;
}

/// Process, instances and total.
type Rank = (usize, u64, u64);

fn trees(all: &[Instances]) -> Result<(), TestCaseError> {
    let merged = merge(all);
    let mut expected: BTreeMap<Vec<String>, (NodeTotals, Vec<Rank>)> = BTreeMap::new();
    for (process, raw) in all.iter().enumerate() {
        for (path, one) in nodes_of(raw) {
            let (sum, ranks) = expected.entry(path).or_default();
            ranks.push((process, one.instances, one.total_ns));
            add(sum, one);
        }
    }
    let found = paths(&merged.tree);
    prop_assert_eq!((found.len(), merged.tree.len()), (expected.len(), expected.len()));
    for (path, (mut totals, ranks)) in expected {
        let node = found.get(&path).ok_or_else(|| TestCaseError::fail(format!("no {path:?}")))?;
        totals.first_ns = node.all.first_ns;
        prop_assert_eq!(&node.all, &totals);
        let of_node: Vec<Rank> = node.ranks.iter().map(|rank| (rank.process, rank.instances, rank.total)).collect();
        prop_assert_eq!(of_node, ranks);
    }
    Ok(())
}

/// A tree as the list of its nodes.
fn listed(tree: &[TreeNode]) -> Vec<(PhaseLabel, NodeTotals)> {
    let mut nodes = Vec::new();
    let mut left: Vec<(usize, &TreeNode)> = tree.iter().rev().map(|root| (0, root)).collect();
    while let Some((depth, node)) = left.pop() {
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        nodes.push((PhaseLabel { depth, domain: node.domain.clone(), name: node.name.clone() }, node.totals()));
    }
    nodes
}

/// Rows of only one process, by key.
fn alone<K: Clone + Ord, V: Clone>(table: &[Merged<K, V>]) -> Vec<(K, V)> {
    let mut rows: Vec<(K, V)> = table
        .iter()
        .filter(|row| row.ranks.len() == 1 && row.ranks[0].process == 0)
        .map(|row| (row.key.clone(), row.all.clone()))
        .collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows
}

fn by_key<K: Ord, V>(rows: impl IntoIterator<Item = (K, V)>) -> Vec<(K, V)> {
    let mut rows: Vec<(K, V)> = rows.into_iter().collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows
}

fn one_alone(raw: &Instances) -> Result<(), TestCaseError> {
    let one = summary(0, raw);
    let merged = Summary::merge([one.clone()]);
    prop_assert_eq!(&merged.processes, &[one.process]);
    let ranges = one
        .ranges
        .into_iter()
        .map(|RangeStats { domain, name, style, times }| (RangeLabel { domain, name, style }, times));
    prop_assert_eq!(alone(&merged.ranges), by_key(ranges));
    let streams = one.stream_ranges.into_iter().map(|row| {
        let stream = row.stream.trim_start_matches("GPU 0 ").to_owned();
        let all = StreamTimes { times: row.times, empty: row.empty, floor_ns: row.floor_ns };
        (StreamLabel { domain: row.domain, name: row.name, stream }, all)
    });
    prop_assert_eq!(alone(&merged.stream_ranges), by_key(streams));
    prop_assert_eq!(alone(&merged.categories), by_key(one.categories.into_iter().map(|row| (row.category, row.times))));
    let tree: Vec<(PhaseLabel, NodeTotals)> =
        merged.tree.iter().map(|node| (node.key.clone(), node.all.clone())).collect();
    prop_assert_eq!(tree, listed(&one.tree));
    prop_assert_eq!(merged.gpu.is_some(), one.gpu.is_some());
    let (Some(all), Some(own)) = (merged.gpu, one.gpu) else { return Ok(()) };
    prop_assert_eq!(alone(&all.kernels), by_key(own.kernels.into_iter().map(|row| (row.name, row.times))));
    prop_assert_eq!(alone(&all.memory_times), by_key(own.memory.iter().map(|row| (row.kind, row.times.clone()))));
    prop_assert_eq!(alone(&all.memory_sizes), by_key(own.memory.into_iter().map(|row| (row.kind, row.sizes))));
    let calls = own.calls.map(|calls| by_key(calls.into_iter().map(|row| (row.name, row.times))));
    prop_assert_eq!(all.calls.map(|calls| alone(&calls)), calls);
    let projections = own.projections.into_iter().map(|row| {
        let all = Projected {
            times: row.projected,
            range_total_ns: row.range_total_ns,
            operations: row.operations,
            level_sum: row.level_sum,
            children_sum: row.children_sum,
        };
        (RangeLabel { domain: row.domain, name: row.name, style: row.style }, all)
    });
    prop_assert_eq!(alone(&all.projections), by_key(projections));
    let work = [(WorkPart::All, own.total), (WorkPart::Outside, own.outside), (WorkPart::Unmatched, own.unmatched)];
    prop_assert_eq!(alone(&all.work), by_key(work.into_iter().filter(|(_, work)| work.operations > 0)));
    Ok(())
}

fn in_two_orders() -> impl Strategy<Value = (Vec<Summary>, Vec<Summary>)> {
    prop::collection::vec(process(), 1..6).prop_flat_map(|all| {
        let all: Vec<Summary> = all.iter().zip(0..).map(|(raw, rank)| summary(rank, raw)).collect();
        (Just(all.clone()), Just(all).prop_shuffle())
    })
}

proptest! {
    /// The merged tables equal those of all instances.
    #[test]
    fn the_parts_are_the_whole(all in prop::collection::vec(process(), 1..6)) {
        cpu_tables(&all)?;
        gpu_tables(&all)?;
    }

    /// Trees are compared by paths, with figures added one by one.
    #[test]
    fn trees_are_joined_by_their_paths(all in prop::collection::vec(process(), 1..6)) {
        trees(&all)?;
    }

    /// The result is the same in any order, to the last bit.
    #[test]
    fn no_order_matters((all, shuffled) in in_two_orders()) {
        prop_assert_eq!(Summary::merge(all), Summary::merge(shuffled));
    }

    /// A merge of one process equals its own summary.
    #[test]
    fn one_process_is_its_own_summary(raw in process()) {
        one_alone(&raw)?;
    }
}
