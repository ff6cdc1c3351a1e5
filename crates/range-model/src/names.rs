//! Names and lists of names, in a form that is safe on a terminal.

mod memory;

pub use memory::memory_name;

use std::borrow::Cow;
use std::fmt::Write as _;

/// `name` with dangerous characters escaped: those that could move the cursor, colour the screen or reorder the line,
/// that is, control characters, line and paragraph separators, marks and overrides of the writing direction. Also
/// escapes the two characters that XML forbids even as references: a picture of folded stacks would not open with one.
/// Blanks at the end, which Fortran leaves there, become `\x20` or `\x20{27}`: two names that differ only there stay
/// apart.
pub fn escaped(name: &str) -> Cow<'_, str> {
    let text = name.trim_end_matches(' ');
    let blanks = name.len() - text.len();
    if blanks == 0 && !name.chars().any(is_unsafe) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if is_unsafe(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    match blanks {
        0 => {}
        1 => out.push_str("\\x20"),
        more => _ = write!(out, "\\x20{{{more}}}"),
    }
    Cow::Owned(out)
}

fn is_unsafe(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The name of a range with its domain: `domain:name`, or the bare name in the default domain.
#[must_use]
pub fn in_domain(domain: Option<&str>, name: &str) -> String {
    domain.map_or_else(|| name.to_owned(), |domain| format!("{domain}:{name}"))
}

/// The same; `None` for a range without a name.
#[must_use]
pub fn label(domain: Option<&str>, name: &str) -> Option<String> {
    (!name.is_empty()).then(|| in_domain(domain, name))
}

/// The same; for a range without a name, the word `None`, as in Nsight Systems.
#[must_use]
pub fn label_or_none(domain: Option<&str>, name: &str) -> String {
    label(domain, name).unwrap_or_else(|| "None".to_owned())
}

/// The collective operation that a kernel of NCCL runs: `AllReduce` for `ncclDevKernel_AllReduce_Sum_f32_RING_LL`;
/// `None` for other kernels.
///
/// ```
/// use range_model::names::collective;
///
/// assert_eq!(collective("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"), Some("AllGather"));
/// assert_eq!(collective("gemm"), None);
/// ```
#[must_use]
pub fn collective(kernel: &str) -> Option<&str> {
    let (_, rest) = kernel.strip_prefix("nccl")?.split_once("Kernel_")?;
    rest.split(['_', '(']).next().filter(|name| !name.is_empty())
}

/// The parts, with `between` after each but the last. The compiler makes ten times as much of `join` for a slice.
pub fn joined<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    let mut all = String::new();
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            all.push_str(between);
        }
        all.push_str(part.as_ref());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_a_terminal_would_act_on() {
        assert_eq!(escaped("plain 日本語 \\n"), "plain 日本語 \\n");
        assert_eq!(escaped("a\tb\nc\rd"), "a\\tb\\nc\\rd");
        assert_eq!(escaped("\u{1b}[31mred\u{7f}\u{0}"), "\\x1b[31mred\\x7f\\x00");
        assert_eq!(escaped("\u{9b}2J\u{202e}abc\u{2028}"), "\\u{9b}2J\\u{202e}abc\\u{2028}");
        assert_eq!(escaped("\u{200f}1 \u{ffff}\u{fffd}\u{200d}"), "\\u{200f}1 \\u{ffff}\u{fffd}\u{200d}");
    }

    #[test]
    fn names_that_differ_in_blanks_at_the_end_stay_apart() {
        let all = ["step", "step ", "step  ", " "].map(|name| escaped(name).into_owned());
        assert_eq!(all, ["step", "step\\x20", "step\\x20{2}", "\\x20"]);
    }

    #[test]
    fn labels() {
        assert_eq!(label(None, "a").as_deref(), Some("a"));
        assert_eq!(label(Some("d"), "a").as_deref(), Some("d:a"));
        assert_eq!(label(Some("d"), ""), None);
    }
}
