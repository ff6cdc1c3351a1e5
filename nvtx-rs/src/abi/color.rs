//! Colours of ranges and marks.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// A colour with an alpha channel, as tools show ranges and marks.
///
/// Parses CSS names, `#rgb`, `#rrggbb`, `#aarrggbb`, `0xRRGGBB` and `0xAARRGGBB`; without an alpha the colour is
/// opaque.
///
/// ```
/// use nvtx_rs::Color;
/// let teal: Color = "teal".parse()?;
/// assert_eq!(teal, Color::rgb(0, 128, 128));
/// assert_eq!("#0088ff".parse::<Color>()?.to_argb(), 0xFF00_88FF);
/// assert_eq!("0x800088FF".parse::<Color>()?, Color::argb(0x8000_88FF));
/// # Ok::<(), nvtx_rs::ParseColorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Color(u32);

impl Color {
    /// The colour `0xAARRGGBB`.
    #[must_use]
    pub const fn argb(argb: u32) -> Self {
        Self(argb)
    }

    /// An opaque colour.
    #[must_use]
    pub const fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self(u32::from_be_bytes([0xFF, red, green, blue]))
    }

    /// The colour as `0xAARRGGBB`.
    #[must_use]
    pub const fn to_argb(self) -> u32 {
        self.0
    }
}

impl FromStr for Color {
    type Err = ParseColorError;

    fn from_str(text: &str) -> Result<Self, ParseColorError> {
        let color = if let Some(digits) = text.strip_prefix('#') {
            parse_hex(digits, &[3, 6, 8])
        } else if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            parse_hex(digits, &[6, 8])
        } else {
            parse_name(text)
        };
        color.ok_or_else(|| ParseColorError { text: text.to_owned() })
    }
}

/// A text that is no colour.
///
/// ```
/// use nvtx_rs::Color;
/// let error = "greenish".parse::<Color>().unwrap_err();
/// assert!(error.to_string().contains("greenish"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseColorError {
    text: String,
}

impl fmt::Display for ParseColorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(f, "{text:?} is no colour: use a CSS name, #rgb, #rrggbb, #aarrggbb, 0xRRGGBB or 0xAARRGGBB")
    }
}

impl Error for ParseColorError {}

fn parse_hex(digits: &str, lengths: &[usize]) -> Option<Color> {
    if !lengths.contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let value = u32::from_str_radix(digits, 16).ok()?;
    Some(match digits.len() {
        3 => {
            let channel = |shift: u32| (value >> shift & 0xF) as u8 * 0x11;
            Color::rgb(channel(8), channel(4), channel(0))
        }
        6 => Color(0xFF00_0000 | value),
        _ => Color(value),
    })
}

fn parse_name(text: &str) -> Option<Color> {
    if text.eq_ignore_ascii_case("transparent") {
        return Some(Color(0));
    }
    let name = text.to_ascii_lowercase();
    let at = NAMES.binary_search_by_key(&name.as_str(), |&(name, _)| name).ok()?;
    Some(Color(0xFF00_0000 | NAMES[at].1))
}

/// The names of CSS Color Module Level 4, sorted.
#[rustfmt::skip]
const NAMES: [(&str, u32); 148] = [
    ("aliceblue", 0xF0F8FF), ("antiquewhite", 0xFAEBD7), ("aqua", 0x00FFFF), ("aquamarine", 0x7FFFD4),
    ("azure", 0xF0FFFF), ("beige", 0xF5F5DC), ("bisque", 0xFFE4C4), ("black", 0x000000), ("blanchedalmond", 0xFFEBCD),
    ("blue", 0x0000FF), ("blueviolet", 0x8A2BE2), ("brown", 0xA52A2A), ("burlywood", 0xDEB887),
    ("cadetblue", 0x5F9EA0), ("chartreuse", 0x7FFF00), ("chocolate", 0xD2691E), ("coral", 0xFF7F50),
    ("cornflowerblue", 0x6495ED), ("cornsilk", 0xFFF8DC), ("crimson", 0xDC143C), ("cyan", 0x00FFFF),
    ("darkblue", 0x00008B), ("darkcyan", 0x008B8B), ("darkgoldenrod", 0xB8860B), ("darkgray", 0xA9A9A9),
    ("darkgreen", 0x006400), ("darkgrey", 0xA9A9A9), ("darkkhaki", 0xBDB76B), ("darkmagenta", 0x8B008B),
    ("darkolivegreen", 0x556B2F), ("darkorange", 0xFF8C00), ("darkorchid", 0x9932CC), ("darkred", 0x8B0000),
    ("darksalmon", 0xE9967A), ("darkseagreen", 0x8FBC8F), ("darkslateblue", 0x483D8B), ("darkslategray", 0x2F4F4F),
    ("darkslategrey", 0x2F4F4F), ("darkturquoise", 0x00CED1), ("darkviolet", 0x9400D3), ("deeppink", 0xFF1493),
    ("deepskyblue", 0x00BFFF), ("dimgray", 0x696969), ("dimgrey", 0x696969), ("dodgerblue", 0x1E90FF),
    ("firebrick", 0xB22222), ("floralwhite", 0xFFFAF0), ("forestgreen", 0x228B22), ("fuchsia", 0xFF00FF),
    ("gainsboro", 0xDCDCDC), ("ghostwhite", 0xF8F8FF), ("gold", 0xFFD700), ("goldenrod", 0xDAA520),
    ("gray", 0x808080), ("green", 0x008000), ("greenyellow", 0xADFF2F), ("grey", 0x808080), ("honeydew", 0xF0FFF0),
    ("hotpink", 0xFF69B4), ("indianred", 0xCD5C5C), ("indigo", 0x4B0082), ("ivory", 0xFFFFF0), ("khaki", 0xF0E68C),
    ("lavender", 0xE6E6FA), ("lavenderblush", 0xFFF0F5), ("lawngreen", 0x7CFC00), ("lemonchiffon", 0xFFFACD),
    ("lightblue", 0xADD8E6), ("lightcoral", 0xF08080), ("lightcyan", 0xE0FFFF), ("lightgoldenrodyellow", 0xFAFAD2),
    ("lightgray", 0xD3D3D3), ("lightgreen", 0x90EE90), ("lightgrey", 0xD3D3D3), ("lightpink", 0xFFB6C1),
    ("lightsalmon", 0xFFA07A), ("lightseagreen", 0x20B2AA), ("lightskyblue", 0x87CEFA), ("lightslategray", 0x778899),
    ("lightslategrey", 0x778899), ("lightsteelblue", 0xB0C4DE), ("lightyellow", 0xFFFFE0), ("lime", 0x00FF00),
    ("limegreen", 0x32CD32), ("linen", 0xFAF0E6), ("magenta", 0xFF00FF), ("maroon", 0x800000),
    ("mediumaquamarine", 0x66CDAA), ("mediumblue", 0x0000CD), ("mediumorchid", 0xBA55D3), ("mediumpurple", 0x9370DB),
    ("mediumseagreen", 0x3CB371), ("mediumslateblue", 0x7B68EE), ("mediumspringgreen", 0x00FA9A),
    ("mediumturquoise", 0x48D1CC), ("mediumvioletred", 0xC71585), ("midnightblue", 0x191970), ("mintcream", 0xF5FFFA),
    ("mistyrose", 0xFFE4E1), ("moccasin", 0xFFE4B5), ("navajowhite", 0xFFDEAD), ("navy", 0x000080),
    ("oldlace", 0xFDF5E6), ("olive", 0x808000), ("olivedrab", 0x6B8E23), ("orange", 0xFFA500),
    ("orangered", 0xFF4500), ("orchid", 0xDA70D6), ("palegoldenrod", 0xEEE8AA), ("palegreen", 0x98FB98),
    ("paleturquoise", 0xAFEEEE), ("palevioletred", 0xDB7093), ("papayawhip", 0xFFEFD5), ("peachpuff", 0xFFDAB9),
    ("peru", 0xCD853F), ("pink", 0xFFC0CB), ("plum", 0xDDA0DD), ("powderblue", 0xB0E0E6), ("purple", 0x800080),
    ("rebeccapurple", 0x663399), ("red", 0xFF0000), ("rosybrown", 0xBC8F8F), ("royalblue", 0x4169E1),
    ("saddlebrown", 0x8B4513), ("salmon", 0xFA8072), ("sandybrown", 0xF4A460), ("seagreen", 0x2E8B57),
    ("seashell", 0xFFF5EE), ("sienna", 0xA0522D), ("silver", 0xC0C0C0), ("skyblue", 0x87CEEB),
    ("slateblue", 0x6A5ACD), ("slategray", 0x708090), ("slategrey", 0x708090), ("snow", 0xFFFAFA),
    ("springgreen", 0x00FF7F), ("steelblue", 0x4682B4), ("tan", 0xD2B48C), ("teal", 0x008080), ("thistle", 0xD8BFD8),
    ("tomato", 0xFF6347), ("turquoise", 0x40E0D0), ("violet", 0xEE82EE), ("wheat", 0xF5DEB3), ("white", 0xFFFFFF),
    ("whitesmoke", 0xF5F5F5), ("yellow", 0xFFFF00), ("yellowgreen", 0x9ACD32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        assert!(NAMES.is_sorted_by(|a, b| a.0 < b.0));
        for (name, rgb) in NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(Color(0xFF00_0000 | rgb)));
        }
        assert_eq!("Transparent".parse(), Ok(Color(0)));
    }

    #[test]
    fn numbers_are_read_in_every_form() {
        assert_eq!("#f80".parse(), Ok(Color(0xFFFF_8800)));
        assert_eq!("#0088FF".parse(), Ok(Color(0xFF00_88FF)));
        assert_eq!("#800088ff".parse(), Ok(Color(0x8000_88FF)));
        assert_eq!("0x0088FF".parse(), Ok(Color(0xFF00_88FF)));
        assert_eq!("0X000088FF".parse(), Ok(Color(0x0000_88FF)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "#", "#12", "#1234", "#12345", "#1234567", "#123456789", "0x", "0x123", "#ggg", "#+12", "blu", "red "]
        {
            assert!(text.parse::<Color>().is_err(), "{text:?}");
        }
    }
}
