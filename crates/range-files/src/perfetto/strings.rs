//! Texts by number. Each sequence of a block says the texts that it uses, and then names them by their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::schema::{InternedData, InternedString};

/// The texts are forgotten before a block if there are more, or longer ones.
const MOST: usize = 1 << 14;
const MOST_BYTES: usize = 1 << 20;

/// What a text is to an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Category,
    Name,
    Key,
    Value,
}

/// All texts, which others may choose.
#[derive(Debug, Default)]
pub(super) struct Strings {
    numbers: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
    bytes: usize,
}

impl Strings {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let (text, number) = (Arc::<str>::from(text), self.texts.len() as u32);
        self.bytes += text.len();
        self.texts.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn is_full(&self) -> bool {
        self.texts.len() > MOST || self.bytes > MOST_BYTES
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The texts that a sequence uses in this block.
#[derive(Debug, Default)]
pub(super) struct Used {
    known: FxHashSet<u64>,
    all: Vec<(Role, u32)>,
}

impl Used {
    /// The number of a text in events.
    pub(super) fn iid(&mut self, role: Role, number: u32) -> u64 {
        if self.known.insert((role as u64) << 32 | u64::from(number)) {
            self.all.push((role, number));
        }
        u64::from(number) + 1
    }

    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.all.clear();
    }

    pub(super) fn said(&self, strings: &Strings) -> InternedData {
        let mut data = InternedData::default();
        for &(role, number) in &self.all {
            let said = match role {
                Role::Category => &mut data.event_categories,
                Role::Name => &mut data.event_names,
                Role::Key => &mut data.debug_annotation_names,
                Role::Value => &mut data.debug_annotation_string_values,
            };
            let text = strings.texts.get(number as usize).map(|text| text.to_string());
            said.push(InternedString { iid: Some(u64::from(number) + 1), text });
        }
        data
    }
}
