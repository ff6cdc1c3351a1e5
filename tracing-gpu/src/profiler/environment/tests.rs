//! The grammar of `TRACING_GPU` and `TRACING_GPU_FILTER`, with any set of features.

use range_report::TableStyle;
use range_report::{FindingKind, FindingKinds};
use tracing_core::Level;

use super::*;
use crate::config::{Domain, Output};

fn applied(text: &str) -> (Config, Vec<String>) {
    let mut config = Config::default();
    let complaints = apply(&mut config, text);
    (config, complaints)
}

fn path<'a>(config: &'a Config, key: &str) -> Option<&'a str> {
    config.file(key)?.to_str()
}

#[test]
fn every_key_is_read() {
    let (config, complaints) = applied(r"report=tree+categories, style=legacy,nvtx=off,domain=app,out=a\,b.txt");
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(config.reports, [Report::Tree, Report::Categories]);
    assert_eq!((config.style, config.nvtx), (TableStyle::Legacy, false));
    assert_eq!(config.domain, Domain::Named("app".into()));
    assert_eq!(config.output, Output::File("a,b.txt".into()));
    assert!(config.enabled && !applied("off").0.enabled);
    assert_eq!(applied("domain=target").0.domain, Domain::PerTarget);
    assert_eq!(applied("hot=75%").0.hot_percent, 75.0);
    assert_eq!(applied("percentiles=99.9+ 50%+90").0.quantiles, [0.5, 0.9, 0.999]);
    let name_from = |text: &str| applied(text).0.fields.name_from;
    let chosen = ["otel.name", "name"].map(str::to_owned).to_vec();
    assert_eq!((name_from("name_from=otel.name + name"), name_from("")), (Some(chosen), None));
    assert_eq!(name_from("name_from=off"), Some(Vec::new()));
    let refused = "TRACING_GPU: `name_from` cannot be ``: expected off, or names of fields, joined by +";
    assert_eq!(applied("name_from=").1, [refused]);
    let refused = "TRACING_GPU: `percentiles` cannot be `50+101`: expected percentages from 0 to 100, joined by +";
    assert_eq!(applied("percentiles=50+101").1, [refused]);
    assert_eq!(applied("").1, Vec::<String>::new());
    assert!(
        !applied("OFF").0.enabled && !applied("0").0.enabled && applied("1").0.enabled && applied("on").1.is_empty()
    );
}

/// Only a comma ends a path, which may contain any other character. A misread path would be a file in a wrong place.
#[test]
fn parts_are_joined_by_a_comma_alone() {
    let (config, complaints) = applied("out=stdout;report=tree");
    let refused = "TRACING_GPU: `out` cannot be `stdout;report=tree`: expected one value, and a comma between parts";
    assert_eq!((config.output, complaints), (Output::Stderr, vec![refused.to_owned()]));
    for text in ["trace=a.json\n html = b.html", "report=tree; out=stdout", "domain=app;nvtx=off"] {
        let complaints = applied(text).1;
        assert!(complaints.len() == 1 && complaints[0].ends_with("a comma between parts"), "{complaints:?}");
    }
    assert_eq!(applied("out=a;b=c;d.txt").0.output, Output::File("a;b=c;d.txt".into()));
}

#[test]
fn what_a_feature_has_is_read_where_it_is_there() {
    let needs = |key: &str, feature: &str| {
        vec![format!("TRACING_GPU: `{key}` needs the feature `{feature}` of the crate tracing-gpu")]
    };
    for (text, read, otherwise) in [
        ("gpu=off", Gpu::Off, None),
        ("gpu=auto", Gpu::Auto, None),
        ("gpu=events", Gpu::Events, Some(needs("gpu=events", "cuda"))),
        ("gpu=cupti", Gpu::Cupti, Some(needs("gpu=cupti", "cuda"))),
    ] {
        let mut config = Config { gpu: Gpu::Off, ..Config::default() };
        let complaints = apply(&mut config, text);
        let missing = otherwise.filter(|_| !cfg!(feature = "cuda"));
        assert_eq!(config.gpu, if missing.is_some() { Gpu::Off } else { read }, "{text}");
        assert_eq!(complaints, missing.unwrap_or_default(), "{text}");
    }
    let (config, complaints) = applied("signals=on");
    assert_eq!((config.on_signal, complaints), (Some(true), vec![]));
    assert!(
        applied("otlp=localhost").1[0].ends_with("expected on, off or an address that begins with http:// or https://")
    );
    let (config, complaints) = applied("otlp=http://localhost:4318");
    #[cfg(feature = "otlp")]
    assert_eq!((config.otlp.as_deref(), complaints), (Some("http://localhost:4318"), vec![]));
    #[cfg(not(feature = "otlp"))]
    assert_eq!((config.every, complaints), (None, needs("otlp", "otlp")));
}

#[test]
fn of_a_key_that_is_given_twice_the_first_value_counts() {
    let (config, complaints) = applied("trace=a, trace = b\\,\tc ,nvtx=off,nvtx=off,folded=d,hot=50,hot=101,trace=");
    assert_eq!(path(&config, "trace"), Some("a"));
    assert_eq!((path(&config, "folded"), config.nvtx, config.hot_percent), (Some("d"), false, 50.0));
    let twice =
        |key, first, again| format!("TRACING_GPU: `{key}` is given twice: `{first}` is used, `{again}` is ignored");
    let expected = [
        twice("trace", "a", "b,\\tc"),
        twice("nvtx", "off", "off"),
        twice("hot", "50", "101"),
        twice("trace", "a", ""),
    ];
    assert_eq!(complaints, expected);
    // A rejected value does not count as the first one, and neither does a switch without a value.
    let (config, complaints) = applied("folded=,folded=a,style,style=legacy,on,on,1,off,off");
    assert_eq!((path(&config, "folded"), config.style, config.enabled), (Some("a"), TableStyle::Legacy, false));
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    // The program's value and the environment's do not count as two.
    let mut config = Config::default();
    assert!(
        apply(&mut config, "hot=50").is_empty()
            && apply(&mut config, "hot=60").is_empty()
            && config.hot_percent == 60.0
    );
}

#[test]
fn a_bad_part_is_one_line_and_the_rest_counts() {
    let (config, complaints) = applied("report=rangs,style=old,nvtx=1,wat,domain=,gpu=on,out,hot=101,style=legacy");
    assert_eq!(config.style, TableStyle::Legacy);
    let reports = "rangs".parse::<Report>().unwrap_err();
    let files: String = outputs::TABLE.iter().map(|row| format!("{}, ", row.key)).collect();
    assert_eq!(
        complaints,
        [
            &*format!("TRACING_GPU: `report` cannot be `rangs`: expected {}, joined by +", reports.expected()),
            "TRACING_GPU: `style` cannot be `old`: expected current or legacy",
            "TRACING_GPU: `nvtx` cannot be `1`: expected on or off",
            &*format!(
                "TRACING_GPU: `wat` is not known: allowed are off, report, style, name_from, names, bare_fields, nvtx, \
                 gpu, graphs, api, on_cpu, off_cpu, hot, percentiles, without, rows, notes, domain, parents, every, \
                 rotate, otlp, {} and signals",
                files.trim_end_matches(", ")
            ),
            "TRACING_GPU: `domain` cannot be ``: expected default, target or a name",
            "TRACING_GPU: `gpu` cannot be `on`: expected auto, events, cupti or off",
            "TRACING_GPU: `out` needs a value: write out=...",
            "TRACING_GPU: `hot` cannot be `101`: expected a percentage from 0 to 100",
        ]
    );
}

#[test]
fn windows_have_a_length_with_a_unit_and_need_a_name_with_a_time() {
    for (text, ms) in [("60s", 60_000), ("10ms", 10), ("5m", 300_000), ("2h", 7_200_000)] {
        let (config, complaints) = applied(&format!("every={text},folded=%t.folded"));
        assert_eq!((config.every.map(|every| every.as_millis()), complaints.len()), (Some(ms), 0), "{text}");
        assert!(outputs::has_windows(&config) && outputs::without_effect(&config).is_empty());
    }
    let expected = "expected a time of at least 10ms: a whole number with ms, s, m or h";
    for text in ["60", "s", "9ms", "0s", "-1s", "1.5s", "1d", "99999999999999999999s", "18446744073709551615h"] {
        let (config, complaints) = applied(&format!("every={text}"));
        assert_eq!(config.every, None);
        assert_eq!(complaints, [format!("TRACING_GPU: `every` cannot be `{text}`: {expected}")]);
    }
    for files in ["folded=a.folded", "folded=%%t", "trace=%t.json", "out=%t.txt"] {
        let (config, _) = applied(&format!("every=1s,{files}"));
        assert!(!outputs::has_windows(&config), "{files}");
        assert_eq!(outputs::without_effect(&config).len(), 1, "{files}");
    }
}

#[test]
fn a_report_after_a_comma_is_told_how_it_is_joined() {
    let (_, complaints) = applied("report=tree,ranges");
    assert_eq!(complaints, ["TRACING_GPU: `ranges` is a report: write report=ranges, or report=tree+ranges for both"]);
}

#[test]
fn files_are_named_where_the_feature_is_there() {
    let (config, complaints) =
        applied(r"json=a\,%p.json,folded=,folded=b.folded,flamegraph=c.svg,json,baseline=d.json");
    assert_eq!(path(&config, "folded"), Some("b.folded"));
    assert_eq!(path(&config, "json"), cfg!(feature = "json").then_some("a,%p.json"));
    let page = cfg!(feature = "html");
    assert_eq!(path(&config, "baseline"), page.then_some("d.json"));
    let alone = "the baseline `d.json` has no effect without a page: name one with `html`";
    assert_eq!(outputs::without_effect(&config), page.then(|| alone.to_owned()).into_iter().collect::<Vec<_>>());
    let expected: Vec<&str> = [
        (cfg!(feature = "json"), "TRACING_GPU: `json` needs the feature `json` of the crate tracing-gpu"),
        (false, "TRACING_GPU: `folded` cannot be ``: expected a path"),
        (
            false,
            "TRACING_GPU: `flamegraph` is no longer a key: `html` writes a page with flame graphs, and `folded` the \
             stacks that inferno-flamegraph draws",
        ),
        (false, "TRACING_GPU: `json` needs a value: write json=..."),
        (page, "TRACING_GPU: `baseline` needs the feature `html` of the crate tracing-gpu"),
    ]
    .into_iter()
    .filter_map(|(built, complaint)| (!built).then_some(complaint))
    .collect();
    assert_eq!(complaints, expected);
}

#[test]
fn the_filter_has_the_grammar_of_targets() {
    let mut config = Config::default();
    assert!(apply_filter(&mut config, "warn,app=trace").is_empty());
    let enables = |config: &Config, target: &str, level: Level| {
        config.filter.as_ref().is_some_and(|filter| filter.would_enable(target, &level))
    };
    assert!(enables(&config, "app::x", Level::TRACE) && !enables(&config, "other", Level::INFO));
    assert_eq!(apply_filter(&mut config, " "), Vec::<String>::new());
    assert_eq!(apply_filter(&mut config, "app=loud").len(), 1);
    assert!(enables(&config, "app", Level::TRACE), "a bad filter changes nothing");
}

#[test]
fn the_brackets_of_env_filter_are_refused() {
    for text in ["a[req]=debug", "info,[req]=debug", "app[{id}]=trace", "[{id=1}]", "a]=info"] {
        let mut config = Config::default();
        let complaints = apply_filter(&mut config, text);
        let expected = format!(
            "TRACING_GPU_FILTER=`{text}` is not a filter (spans and fields cannot be chosen): use TARGET=LEVEL, \
             separated by commas, LEVEL being off, error, warn, info, debug or trace"
        );
        assert_eq!(complaints, [expected]);
        assert_eq!(config.filter, Config::default().filter, "a bad filter changes nothing");
    }
}

#[test]
fn an_escape_stands_for_itself() {
    assert_eq!(split_unescaped(r"a\,b,c\\,d\e,"), [r"a,b", r"c\", r"d\e", ""]);
}

/// A missing row would leave the builder's method or the key without effect.
#[test]
fn the_key_of_every_output_is_read() {
    for row in outputs::TABLE {
        let (config, complaints) = applied(&format!("{}=a", row.key));
        let expected =
            row.how.is_none().then(|| Refused::Needs { features: row.needs, with_value: false }.complaint(row.key, ""));
        assert_eq!(complaints, Vec::from_iter(expected), "{}", row.key);
        assert_eq!(row.path(&config).is_some(), row.how.is_some(), "{}", row.key);
        assert_eq!(applied(row.key).1, [format!("TRACING_GPU: `{0}` needs a value: write {0}=...", row.key)]);
    }
}

#[test]
fn what_belongs_to_the_filter_is_told_so() {
    let own = |filter: &str| {
        vec![format!("TRACING_GPU: the filter has a variable of its own: set TRACING_GPU_FILTER={filter}")]
    };
    assert_eq!(applied("filter=app=debug").1, own("app=debug"));
    assert_eq!(applied("Debug").1, own("Debug"));

    let mut config = Config::default();
    let complaints = apply_filter(&mut config, "info, debgu,app=trace,warn");
    let said = "TRACING_GPU_FILTER: `debgu` is no level, so it is taken for the target debgu=trace: levels are off, \
                error, warn, info, debug or trace";
    assert_eq!(complaints, [said]);
    assert!(config.filter.is_some(), "the rest counts");
}

#[test]
fn a_report_that_stands_alone_is_told_where_it_goes() {
    let said = |name: &str, both: &str| {
        vec![format!("TRACING_GPU: `{name}` is a report: write report={name}, or report={both} for both")]
    };
    assert_eq!(applied("tree").1, said("tree", "ranges+tree"));
    assert_eq!(applied("kernels").1, said("kernels", "tree+kernels"));
}

#[test]
fn colour_is_as_the_environment_asks() {
    let asked = |no: &str, force: &str, term: &str| {
        color(|name| match name {
            "NO_COLOR" => no.to_owned(),
            "CLICOLOR_FORCE" => force.to_owned(),
            "TERM" => term.to_owned(),
            _ => panic!("{name}"),
        })
    };
    assert_eq!(asked("", "", "xterm"), None);
    assert_eq!(asked("", "0", ""), None);
    assert_eq!(asked("", "", "dumb"), Some(false));
    assert_eq!(asked("", "1", "dumb"), Some(true));
    assert_eq!(asked("1", "1", "xterm"), Some(false));
}

#[test]
fn findings_are_switched_off_by_their_names() {
    let (config, complaints) = applied("without=small_copies + no_overlap");
    assert!(complaints.is_empty() && config.without.has(FindingKind::NoOverlap), "{complaints:?}");
    let (config, complaints) = applied("without=small_copies+loss");
    assert_eq!(config.without, FindingKinds::default());
    let [complaint] = &complaints[..] else { panic!("{complaints:?}") };
    let start = "TRACING_GPU: `without` cannot be `small_copies+loss`: expected most_awaited, busy_threads, ";
    assert!(complaint.starts_with(start) && complaint.ends_with(" or small_copies, joined by +"), "{complaint}");
}

#[test]
fn files_of_a_size_follow_one_another() {
    for (text, rotate) in [("256MB*8", (256_000_000, 8)), ("100KB*1", (100_000, 1)), ("2GB*30", (2_000_000_000, 30))] {
        let (config, complaints) = applied(&format!("rotate={text}"));
        assert_eq!((config.rotate, complaints.len()), (Some(rotate), 0), "{text}");
        let needless = "`rotate` has no effect without `perfetto`, whose files it limits";
        assert_eq!(outputs::without_effect(&config), [needless]);
    }
    let expected = "expected a size of at least 100KB and a number of files, as 256MB*8";
    for text in ["256MB", "256*8", "MB*8", "99KB*8", "256MB*0", "1.5GB*2", "1TB*2", "99999999999999GB*2", "1GB*-1"] {
        let (config, complaints) = applied(&format!("rotate={text}"));
        assert_eq!(config.rotate, None);
        assert_eq!(complaints, [format!("TRACING_GPU: `rotate` cannot be `{text}`: {expected}")]);
    }
}
