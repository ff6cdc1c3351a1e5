//! Which folds the reports of GPU time need.

use gpu_analysis::{Idle, Interference, KernelExec, States};
use range_model::Fold;
use range_report::Report;

use crate::config::Config;

pub(super) fn of(config: &Config) -> impl Iterator<Item = Box<dyn Fold>> {
    let asks = |asking: &[Report]| config.needs_stream() && config.reports.iter().any(|report| asking.contains(report));
    let has_gpu_page = config.has_page() && config.wants_activity();
    let idle = match has_gpu_page {
        true => Some(Idle::shown()),
        false => asks(&[Report::Idle, Report::Why]).then(Idle::default),
    };
    let kernel_exec = asks(&[Report::KernelExec]).then(KernelExec::default);
    let interference = match asks(&[Report::Interference]) {
        true => Some(Interference::default()),
        false => (config.needs_stream() && config.asks_who_held()).then(Interference::without_events),
    };
    let states = has_gpu_page || asks(&[Report::Idle, Report::Why, Report::Interference]);
    let states = states.then(States::default);
    let all = [idle.map(fold), kernel_exec.map(fold), interference.map(fold), states.map(fold)];
    all.into_iter().flatten()
}

fn fold(fold: impl Fold + 'static) -> Box<dyn Fold> {
    Box::new(fold)
}
