//! Names that might break a page.

use range_model::timeline::Value;
use tracing_gpu::{Comparison, Summary};

use crate::chromium::Browser;
use crate::compared::{page, rows, run, texts};
use crate::invented::{PID, Run};
use crate::{NOTHING, folder, showing};

#[test]
fn odd_names_do_no_harm() {
    let long: &str = Box::leak("x".repeat(1 << 20).into_boxed_str());
    let names = [
        "</script><script>window.harmed = 1</script>",
        "<img src=x onerror='window.harmed = 2'>",
        "<!--<script>",
        "]]>&lt;&amp;",
        "\"quotes\" 'and' `more` ${window.harmed = 3}",
        "line\nbreak\r\ttab\0nul",
        "\u{1f980} crab, 日本語, e\u{301}",
        "\u{202e}reversed\u{2028}separated",
        "__proto__",
        "constructor",
        "toString",
        "\\u003c\\",
        "",
        " ",
        long,
    ];
    let mut run = Run { threads: vec![(PID, names[0]), (PID + 1, names[6])], ..Run::default() };
    let mut at = 1_000;
    for name in names {
        let span = run.open(PID, at, name, None);
        run.spans[span].category = Some("</script><b>category");
        run.spans[span].payload = Some(Value::Text(name));
        run.spans[span].fields = vec![(name, Value::Text(name)), ("f", Value::Float(f64::NAN))];
        run.close(span, at + 90_000);
        run.marks.push((PID, at, 9, name.to_owned()));
        run.notes.push(name.to_owned());
        at += 100_000;
    }
    let mut browser = showing("odd.html", &run);
    let pages = std::fs::metadata(folder().join("odd.html")).expect("it is there").len();
    assert!(pages < 6 << 20, "{pages} bytes");
    assert_eq!(browser.number("page.run.count"), 30.0);
    let rows = browser.text(
        "[...document.querySelectorAll('#panel tbody th')].map((cell) => cell.textContent.slice(0, 60)).join('\\n')",
    );
    for expected in [
        names[0],
        names[1],
        "None",
        "line\\nbreak\\r\\ttab\\x00nul",
        "\\u{202e}reversed\\u{2028}separated",
        names[6],
        "__proto__",
    ] {
        assert!(rows.lines().any(|row| row == expected), "{expected:?} in {rows}");
    }
    // Each name is found, selected and shown in the details.
    for name in &names[..names.len() - 3] {
        let looked_for: String = name
            .chars()
            .take_while(|letter| !letter.is_control() && *letter != '\u{202e}' && *letter != '\u{2028}')
            .collect();
        browser.eval(&format!("(() => {{ const box = document.getElementById('search'); box.value = {looked_for:?}; box.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter' }})); }})()"));
        if !looked_for.is_empty() {
            let found = browser.text("document.getElementById('found').innerText");
            assert!(found.starts_with("1 of "), "{looked_for:?}: {found}");
        }
        browser.settle();
    }
    for item in 0..30 {
        let middle = browser.eval(&format!(
            "page.show(page.run.start[{item}] - 1000, page.run.end[{item}] + 1000), page.point({item})"
        ));
        browser.mouse(
            "mouseMoved",
            (middle["x"].as_f64().expect("x"), middle["y"].as_f64().expect("y")),
            serde_json::json!({}),
        );
        assert_eq!(browser.eval("document.getElementById('tip').hidden"), false, "item {item}");
    }
    let box_of_tip = browser.number("document.getElementById('tip').getBoundingClientRect().height");
    assert!(box_of_tip < 700.0, "{box_of_tip}");
    assert_eq!(browser.eval("window.harmed === undefined"), true);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn odd_names_of_runs_and_ranges_do_no_harm() {
    let long: &str = Box::leak("x".repeat(1 << 20).into_boxed_str());
    let names = [
        "</script><script>window.harmed = 1</script>",
        "<img src=x onerror='window.harmed = 2'>",
        "<!-- data -->",
        "{{title}} /* style */",
        "\u{202e}reversed\u{2028}separated",
        "עברית مرحبا",
        "__proto__",
        "",
        long,
    ];
    let ranges: Vec<(&str, u64, u64)> = names.iter().zip(1..).map(|(name, ns)| (*name, 1, ns * 1_000)).collect();
    let slower: Vec<(&str, u64, u64)> = ranges.iter().map(|&(name, one, ns)| (name, one, ns * ns)).collect();
    let (mut base, slower) = (run(1, &ranges), run(2, &slower));
    base.process.host = names[0].to_owned();
    base.process.command = long.to_owned();
    let runs: Vec<(&str, &Summary)> =
        names.iter().enumerate().map(|(at, name)| (*name, if at % 2 == 0 { &base } else { &slower })).collect();
    let comparison = Comparison::of(runs.iter().copied());
    let path = page("compared-odd.html", &comparison);
    assert!(std::fs::metadata(&path).expect("it is there").len() < 1 << 20);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    let titles = texts(&mut browser, "#compared thead .group");
    assert_eq!(titles[..4], names[..4]);
    assert_eq!(titles[4..8], ["\\u{202e}reversed\\u{2028}separated", names[5], "__proto__", "(no name)"]);
    assert!(titles[8].starts_with("xxx") && titles[8].ends_with("xxx... (1048576 bytes)"), "{}", titles[8].len());
    let shown = rows(&mut browser);
    assert_eq!(shown.len(), names.len());
    for expected in [names[0], names[1], names[2], names[3], names[5], "__proto__", "None"] {
        assert!(shown.iter().any(|row| row[0] == expected), "{expected:?}");
    }
    let overflow = browser.number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert!(overflow <= 0.0, "{overflow}");
    assert_eq!(browser.eval("window.harmed === undefined"), true);
    assert_eq!(browser.number("document.querySelectorAll('#changes section').length"), 8.0);
    browser.screenshot(&folder().join("compared-odd.png"));
    // Comparisons of no run, and of a single one.
    for (name, runs) in [("compared-none.html", &runs[..0]), ("compared-one.html", &runs[..1])] {
        browser.open(&page(name, &Comparison::of(runs.iter().copied())));
        assert_eq!(browser.eval("document.getElementById('comparison').hidden"), false, "{name}");
        assert_eq!(rows(&mut browser).len(), if runs.is_empty() { 0 } else { names.len() });
    }
    assert_eq!(browser.complaints(), NOTHING);
}
