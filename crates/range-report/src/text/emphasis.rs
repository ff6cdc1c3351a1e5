//! Bold and dim lines on a terminal. They add no information to the text.

/// Ways to emphasise lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emphasis {
    Bold,
    Dim,
}

impl Emphasis {
    /// These lines, each emphasised separately, so that a pager may begin with any of them; unchanged without `color`.
    pub(crate) fn of(self, lines: &str, color: bool) -> String {
        if !color {
            return lines.to_owned();
        }
        let begin = match self {
            Self::Bold => "\x1b[1m",
            Self::Dim => "\x1b[2m",
        };
        let line = |line: &str| match line.strip_suffix('\n') {
            Some("") => line.to_owned(),
            Some(text) => format!("{begin}{text}\x1b[0m\n"),
            None => format!("{begin}{line}\x1b[0m"),
        };
        lines.split_inclusive('\n').map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_ends_what_it_begins() {
        assert_eq!(Emphasis::Bold.of("a\n\nb", true), "\x1b[1ma\x1b[0m\n\n\x1b[1mb\x1b[0m");
        assert_eq!(Emphasis::Dim.of("a\n", true), "\x1b[2ma\x1b[0m\n");
        assert_eq!(Emphasis::Dim.of("a\n", false), "a\n");
    }
}
