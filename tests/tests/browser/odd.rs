//! Names that a page might trip over.

use tracing_gpu::internals::timeline::Value;

use crate::invented::{PID, Run};
use crate::{NOTHING, showing};

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
        run.spans[span].payload = Some(Value::Text(name.to_owned()));
        run.spans[span].fields =
            vec![(name.to_owned(), Value::Text(name.to_owned())), ("f".to_owned(), Value::Float(f64::NAN))];
        run.close(span, at + 90_000);
        run.marks.push((PID, at, 9, name.to_owned()));
        run.notes.push(name.to_owned());
        at += 100_000;
    }
    let mut browser = showing("odd.html", &run);
    let pages = std::fs::metadata(crate::folder().join("odd.html")).expect("it is there").len();
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
    // Each is found, selected and told of.
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
