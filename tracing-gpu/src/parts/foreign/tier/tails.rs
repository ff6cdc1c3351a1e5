//! Unique numbers that code appends to names at run time.
//!
//! The rule: `key = value` at the end of a name is not part of it, once or several times, each after a comma, a
//! semicolon or a blank. A value is a number, or a list in brackets. So `aten::linear, seq = 84, op_id = 315` is
//! `aten::linear`. Numbers without a key stay: `block 1` and `block 2` are two names. Two special forms are recognised,
//! too: `ProfilerStep#12`, and XLA's text between `#`, which loses its numbers:
//! `XlaModule:#hlo_module=jit_f,program_id=1621#` is `XlaModule:#hlo_module=jit_f#`.

use std::borrow::Cow;

use range_model::stats::Lean;
use range_model::timeline::Value;

/// A name without its tail, and the tail's keys and values, the first one first.
#[derive(PartialEq)]
pub(crate) struct Cut<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) values: Vec<(&'a str, Value<'a>)>,
}

/// PyTorch's own profiler numbers this name.
const STEP: &str = "ProfilerStep";

/// The parts of a name with a tail; `None` for other names.
pub(crate) fn cut(name: &str) -> Option<Cut<'_>> {
    match name.as_bytes().last()? {
        b'#' => cut_between_hashes(name),
        b']' | b')' => cut_end(name),
        last if last.is_ascii_hexdigit() || *last == b'.' => cut_step(name).or_else(|| cut_end(name)),
        _ => None,
    }
}

fn cut_step(name: &str) -> Option<Cut<'_>> {
    let number = name.strip_prefix(STEP)?.strip_prefix('#')?.parse().ok()?;
    Some(Cut { name: STEP.into(), values: vec![("step", Value::Unsigned(number))] })
}

fn cut_between_hashes(name: &str) -> Option<Cut<'_>> {
    let (before, pairs) = name.strip_suffix('#')?.split_once('#')?;
    let numbered = |pair: &&str| pair.split_once('=').is_some_and(|(_, value)| number(value).is_some());
    let values: Vec<_> = pairs
        .split(',')
        .filter_map(|pair| pair.split_once('=').and_then(|(key, value)| Some((key, number(value)?))))
        .in_vec();
    let kept: Vec<&str> = pairs.split(',').filter(|pair| !numbered(pair)).in_vec();
    let name = if kept.is_empty() { before.to_owned() } else { format!("{before}#{}#", kept.join(",")) };
    (!values.is_empty() && !name.is_empty()).then(|| Cut { name: name.into(), values })
}

fn cut_end(name: &str) -> Option<Cut<'_>> {
    let (mut rest, mut values) = (name, Vec::new());
    while let Some((before, key, value)) = last_pair(rest) {
        values.push((key, value));
        rest = before;
    }
    values.reverse();
    (!values.is_empty()).then(|| Cut { name: rest.into(), values })
}

/// The last `key = value`, and the name before it, which must not be empty.
fn last_pair(name: &str) -> Option<(&str, &str, Value<'_>)> {
    let from = if name.ends_with([']', ')']) { start_of_list(name)? } else { start_of_word(name) };
    let (before, value) = name.split_at_checked(from)?;
    let value = if value.starts_with(['[', '(']) { Value::Text(value) } else { number(value)? };
    let before = before.trim_end().strip_suffix('=')?.trim_end();
    let (before, key) = before.split_at_checked(start_of_word(before))?;
    if !key.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic()) {
        return None;
    }
    let name = before.trim_end_matches([',', ';', ' ']);
    (!name.is_empty() && name.len() < before.len()).then_some((name, key, value))
}

/// The start of the list at the end of the text.
fn start_of_list(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b']' | b')' => open += 1,
            b'[' | b'(' => open = open.checked_sub(1)?,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// The start of the number or key at the end of the text.
fn start_of_word(text: &str) -> usize {
    let is_of_word = |letter: char| letter.is_ascii_alphanumeric() || "_.+-".contains(letter);
    text.trim_end_matches(is_of_word).len()
}

fn number(text: &str) -> Option<Value<'static>> {
    let hexadecimal = || u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Value::Unsigned);
    let float = || text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::Float);
    text.parse()
        .ok()
        .map(Value::Unsigned)
        .or_else(|| text.parse().ok().map(Value::Integer))
        .or_else(hexadecimal)
        .or_else(float)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let Some(Cut { name, values }) = cut(name) else { return "whole".to_owned() };
        let value = |value: &Value<'_>| match value {
            Value::Text(text) => (*text).to_owned(),
            Value::Unsigned(number) => number.to_string(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        values.iter().fold(name.into_owned(), |shown, (key, of)| format!("{shown} | {key} {}", value(of)))
    }

    #[test]
    fn numbers_with_a_key_leave_the_name() {
        for (name, expected) in [
            ("aten::linear, seq = 84, op_id = 315", "aten::linear | seq 84 | op_id 315"),
            (
                "aten::mm, op_id = 3, sizes = [[2, 3], []], input_op_ids = [(1,0), (2,0)]",
                "aten::mm | op_id 3 | sizes [[2, 3], []] | input_op_ids [(1,0), (2,0)]",
            ),
            (
                "autograd::engine::evaluate_function: AddBackward0, seq = 7",
                "autograd::engine::evaluate_function: AddBackward0 | seq 7",
            ),
            ("step loss=-0.5 lr=1e-3", "step | loss -0.5 | lr 0.001"),
            ("copy; address=0xff", "copy | address 255"),
            ("größe, mode = fast, n=-3", "größe, mode = fast | n -3"),
            ("ProfilerStep#12", "ProfilerStep | step 12"),
            ("XlaModule:#hlo_module=jit_f,program_id=1621#", "XlaModule:#hlo_module=jit_f# | program_id 1621"),
            ("Run:#id=4#", "Run: | id 4"),
        ] {
            assert_eq!(shown(name), expected);
        }
    }

    /// Names without such a tail stay whole.
    #[test]
    fn other_names_stay_whole() {
        for name in [
            "",
            "block 1",
            "block 12",
            "layer #3",
            "conv2d",
            "fc1",
            "epoch 1/10",
            "seq = 84",
            " = 4",
            "x, = 4",
            "a=b",
            "f(x=3)",
            "f (3)",
            "list [3]",
            "x, y = ",
            "x, 3 = 4",
            "x, key = nan",
            "x, key = inf",
            "a, b = 1e",
            "y, x = ]",
            "ProfilerStep#",
            "ProfilerStep#x",
            "#",
            "##",
            "#a=1#",
            "Thunk:#hlo_op=fusion.3#",
            "x,y=1, z",
            "größe=3",
            "é",
            "日本 3",
        ] {
            assert_eq!(shown(name), "whole", "{name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(name in "[a-z#=,;. \\[\\]()0-9éx-]{0,40}") {
            if let Some(Cut { name: cut_name, values }) = cut(&name) {
                assert!(!cut_name.is_empty() && !values.is_empty() && cut_name.len() < name.len(), "{name}");
            }
        }
    }
}
