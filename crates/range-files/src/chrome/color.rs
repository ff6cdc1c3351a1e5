//! Colours: chrome://tracing takes names of colours from its own palette. Perfetto derives colours from slices' names.

/// Names that chrome://tracing knows (`cname`), with the colours that it draws. Its other names repeat these colours.
const PALETTE: [(&str, [u8; 3]); 31] = [
    ("thread_state_uninterruptible", [182, 125, 143]),
    ("thread_state_iowait", [255, 140, 0]),
    ("thread_state_running", [126, 200, 148]),
    ("thread_state_runnable", [133, 160, 210]),
    ("thread_state_unknown", [199, 155, 125]),
    ("background_memory_dump", [0, 180, 180]),
    ("light_memory_dump", [0, 0, 180]),
    ("detailed_memory_dump", [180, 0, 180]),
    ("vsync_highlight_color", [0, 0, 255]),
    ("generic_work", [125, 125, 125]),
    ("good", [0, 125, 0]),
    ("bad", [180, 125, 0]),
    ("terrible", [180, 0, 0]),
    ("black", [0, 0, 0]),
    ("grey", [221, 221, 221]),
    ("white", [255, 255, 255]),
    ("yellow", [255, 255, 0]),
    ("olive", [100, 100, 0]),
    ("rail_response", [67, 135, 253]),
    ("rail_animation", [244, 74, 63]),
    ("rail_idle", [238, 142, 0]),
    ("rail_load", [13, 168, 97]),
    ("startup", [230, 230, 0]),
    ("heap_dump_child_node_arrow", [204, 102, 0]),
    ("cq_build_running", [255, 255, 119]),
    ("cq_build_passed", [153, 238, 102]),
    ("cq_build_failed", [238, 136, 136]),
    ("cq_build_abandoned", [187, 187, 187]),
    ("cq_build_attempt_runnig", [222, 222, 75]), // so spelled there
    ("cq_build_attempt_passed", [103, 218, 35]),
    ("cq_build_attempt_failed", [197, 81, 81]),
];

/// The name of the palette's colour that is nearest to a given one. The last answer is kept for repeated requests.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    last: Option<(u32, &'static str)>,
}

impl Nearest {
    /// `argb` is 0xAARRGGBB; its transparency is ignored.
    pub(super) fn name(&mut self, argb: u32) -> &'static str {
        if let Some((_, name)) = self.last.filter(|(color, _)| *color == argb) {
            return name;
        }
        let [_, wanted @ ..] = argb.to_be_bytes();
        let distance = |color: [u8; 3]| -> u32 {
            let [red, green, blue] = [0, 1, 2].map(|part| u32::from(wanted[part].abs_diff(color[part])).pow(2));
            // The eye is keenest on green, dullest on blue.
            3 * red + 6 * green + blue
        };
        let name = PALETTE.iter().min_by_key(|(_, color)| distance(*color)).map_or("generic_work", |(name, _)| name);
        self.last = Some((argb, name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_near() {
        let mut nearest = Nearest::default();
        for (name, [red, green, blue]) in PALETTE {
            assert_eq!(nearest.name(u32::from_be_bytes([0xff, red, green, blue])), name);
        }
        for (argb, name) in [
            (0xffff_0000, "terrible"),
            (0x0000_8000, "good"),
            (0xff00_00fe, "vsync_highlight_color"),
            (0xff76_b900, "cq_build_attempt_passed"),
        ] {
            assert_eq!(nearest.name(argb), name, "{argb:x}");
        }
    }
}
