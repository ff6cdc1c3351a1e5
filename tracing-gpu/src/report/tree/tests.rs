use proptest::prelude::*;

use super::*;

fn node(name: &str, calls: u64, total_ns: u64, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
    TreeNode { name: name.to_owned(), calls, instances: calls, total_ns, self_ns, children, ..TreeNode::default() }
}

fn summary(tree: Vec<TreeNode>) -> Summary {
    Summary { tree, ..Summary::default() }
}

fn phases() -> Summary {
    let mut poll = node("poll", 2, 40_000_000, 40_000_000, vec![]);
    poll.instances = 1_431;
    summary(vec![
        node(
            "Load Module",
            1,
            349_880_374,
            1_880_374,
            vec![
                node("read", 3, 240_000_000, 240_000_000, vec![]),
                node(
                    "decode",
                    152,
                    108_000_000,
                    107_900_000,
                    vec![node("check", 152, 80_000, 80_000, vec![]), node("align", 152, 20_000, 20_000, vec![])],
                ),
            ],
        ),
        node("Module running", 0, 30_000_000, 30_000_000, vec![poll]),
    ])
}

#[test]
fn at_80_columns() {
    let text = tree(&phases(), &RenderOptions::default().width(80));
    let expected = "
 ** Phase Tree (tree):

      Total      Self   Parent  Calls  Avg/Call  Inst.  Phase
   --------  --------  -------  -----  --------  -----  ------------------------
 > 349.9 ms  1.880 ms   83.3%       1  349.9 ms      1  Load Module
>> 240.0 ms  240.0 ms   68.6%       3  80.00 ms      3    read
   108.0 ms  107.9 ms   30.9%     152  710.5 us    152    decode
   100.0 us  100.0 us    0.1%     304              304      (2 more under 0.1 %)
   30.00 ms  30.00 ms    7.1%       0      -         0  Module running
   40.00 ms  40.00 ms  133.3%*      2  20.00 ms  1,431    poll

 >> most time of its own: read 240.0 ms (57.2%), decode 107.9 ms (25.7%)
 *  on several threads: together longer than the parent

";
    assert_eq!(text, expected);
}

#[test]
fn a_wide_one_has_bars() {
    let text = tree(&phases(), &RenderOptions::default().width(140));
    let bars: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('%')?.1.rsplit_once("  ")).map(|x| x.1).collect();
    assert!(text.contains("Self, of all"), "{text}");
    assert!(text.lines().any(|line| line.starts_with(">>") && line.ends_with("57.2% #################")), "{text}");
    assert!(bars.iter().all(|bar| bar.is_ascii()));
}

#[test]
fn empty() {
    let text = tree(&Summary::default(), &RenderOptions::default().style(TableStyle::Legacy));
    assert!(text.starts_with("\nPhase Tree:\n\nNo range was recorded."));
}

#[test]
fn names_cannot_break_the_lines() {
    let odd = summary(vec![node("a\nb\u{1b}[2J", 1, 5, 5, vec![]), node("", 1, 4, 4, vec![])]);
    let text = tree(&odd, &RenderOptions::default());
    assert!(text.contains("a\\nb\\x1b[2J") && text.contains("  None"), "{text}");
    assert!(tree(&odd, &RenderOptions::default().raw_names(true)).contains("a\nb\u{1b}[2J"));
}

#[test]
fn deep_phases_say_how_deep_they_are() {
    let mut inner = node("the innermost phase of them all", 1, 1_000, 1_000, vec![]);
    for _ in 0..300 {
        inner = node("outer", 1, 1_000, 0, vec![inner]);
    }
    let text = tree(&summary(vec![inner]), &RenderOptions::default().width(80));
    let line = text.lines().find(|line| line.starts_with(">>")).unwrap();
    assert!(line.contains("+300 ") && line.ends_with("them all") && chars(line) <= 80, "{line}");
}

fn any_tree() -> impl Strategy<Value = Vec<TreeNode>> {
    let figures = (0_u64..5, 0_u64..2_000_000_000, 0_u64..2_000_000_000, "[a-z: é日]{0,60}");
    let leaf = figures.clone().prop_map(|(calls, total, own, name)| node(&name, calls, total, own, vec![]));
    let nested = leaf.prop_recursive(5, 40, 6, move |inner| {
        (figures.clone(), prop::collection::vec(inner, 0..6))
            .prop_map(|((calls, total, own, name), children)| node(&name, calls, total, own, children))
    });
    prop::collection::vec(nested, 1..5)
}

fn self_time(nodes: &[TreeNode]) -> u128 {
    nodes.iter().map(|node| u128::from(node.self_ns) + self_time(&node.children)).sum()
}

proptest! {
    #[test]
    fn no_line_is_longer_than_the_width(roots in any_tree(), width in 76_usize..220) {
        let text = tree(&summary(roots), &RenderOptions::default().width(width));
        for line in text.lines() {
            prop_assert!(chars(line) <= width, "{}", text);
            prop_assert_eq!(line.trim_end_matches(' '), line);
        }
    }

    /// Folding hides names, never time.
    #[test]
    fn self_times_of_the_lines_add_up(roots in any_tree()) {
        let shape = Shape::of(&roots);
        let shown: u128 = shape.entries().iter().map(|entry| u128::from(entry.figures.self_ns)).sum();
        prop_assert_eq!(shown, self_time(&roots));
    }
}
