//! Reports: plain text made from a [`Summary`](crate::Summary).

/// Report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Report {
    /// Range statistics.
    Ranges,
    /// Phase tree.
    Tree,
    /// Category sums.
    Categories,
}
/// Layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableStyle {
    /// Current Nsight.
    #[default]
    Current,
    /// 2021.
    Legacy,
}
/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderOptions {
    /// Style.
    pub style: TableStyle,
    /// Thousands separators.
    pub thousands: bool,
}
