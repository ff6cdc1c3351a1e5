//! Any text as `TRACING_GPU`, as a filter, as the value of each option and as the name of a file.

use range_model::summary::Process;
use range_report::{Report, TableStyle};
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use tracing_gpu::{Domain, Gpu, Output, Parents, Profiler};

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (settings, filter) = text.split_once('\u{1}').unwrap_or((&text, &text));
    let (chosen, complaints) = Profiler::builder().told(settings, filter);
    for complaint in &complaints {
        assert!(!complaint.is_empty() && !complaint.contains(char::is_control), "{complaint:?}");
    }
    assert!((0.0..=100.0).contains(&chosen.options.hot_percent) && !chosen.reports.is_empty());
    let (again, same) = Profiler::builder().told(settings, filter);
    assert_eq!((format!("{again:?}"), same), (format!("{chosen:?}"), complaints));

    let mut process = Process::default();
    (process.host, process.pid, process.rank) = ("a/b\\%p".to_owned(), 7, Some(3));
    for path in chosen.files.iter().map(|(_, path)| path.as_path()).chain([Path::new(&*text)]) {
        let expanded = tracing_gpu::Chosen::expand(path, &process);
        if !path.to_string_lossy().contains('%') {
            assert_eq!(expanded, path);
        }
        // Whatever the placeholders stand for, a file stays in the named folder.
        let folders = |path: &Path| path.to_string_lossy().matches('/').count();
        assert!(folders(&expanded) <= folders(path), "{path:?} as {expanded:?}");
    }

    comes_back::<Report>(&text);
    comes_back::<TableStyle>(&text);
    comes_back::<Gpu>(&text);
    let _ = (text.parse::<Domain>(), text.parse::<Output>(), text.parse::<Parents>(), text.parse::<nvtx_rs::Color>());
}

/// A value that is parsed is printed as a word that parses to the same value.
fn comes_back<T: FromStr + Display>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let word = value.to_string();
        assert_eq!(word.parse::<T>().ok().map(|again| again.to_string()), Some(word));
    }
}
