//! Reads the CSV output of `nsys stats`.

/// The cells of each line. A cell with a comma is quoted; a quote inside is doubled or single.
///
/// ```
/// assert_eq!(tests::csv::lines("a,\"b, c\",\"\"\"\"\n1,,2\n"), [["a", "b, c", "\""], ["1", "", "2"]]);
/// ```
#[must_use]
pub fn lines(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(letter),
        }
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}
