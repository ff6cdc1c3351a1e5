//! Names of ranges and of the nodes of the tree, by number.

use std::sync::Arc;

use crate::core::session::Session;
use crate::core::session::catalog::CategoryName;
#[cfg(feature = "cuda")]
use crate::core::session::catalog::ROOT;

/// Names by number, as far as they are known here.
#[derive(Default)]
pub(crate) struct Labels {
    labels: Vec<(Option<&'static str>, Arc<str>)>,
    categories: Vec<Arc<str>>,
    /// Parent and label of each node of the lineage tree.
    nodes: Vec<(u32, u32)>,
}

impl Labels {
    pub(crate) fn label(&self, label: u32) -> (Option<&'static str>, &str) {
        self.labels.get(label as usize).map_or((None, ""), |(domain, name)| (*domain, name))
    }

    pub(crate) fn category(&self, category: u32) -> Option<&str> {
        self.categories.get(category as usize).map(|name| &**name).filter(|_| category != 0)
    }

    /// Adds new names.
    pub(crate) fn update(&mut self, session: &Session) {
        session.with_names(|names| {
            while let Some(label) = names.catalog.label_of(self.labels.len() as u32) {
                self.labels.push((names.domain_name(label.domain), label.name.clone()));
            }
            self.nodes
                .extend(names.catalog.nodes().iter().skip(self.nodes.len()).map(|node| (node.parent, node.label)));
            if self.categories.is_empty() {
                self.categories.push("".into()); // 0 stands for none
            }
            while let Some(category) = names.catalog.category_of(self.categories.len() as u32) {
                self.categories.push(match category {
                    CategoryName::Text(text) => text.clone(),
                    CategoryName::Number(number) => number.to_string().into(),
                });
            }
        });
    }
}

#[cfg(feature = "cuda")]
impl Labels {
    /// Name of the spans of a node; `None` outside of any.
    pub(crate) fn node(&self, node: u32) -> Option<&str> {
        let (_, label) = self.nodes.get(node as usize).filter(|_| node != ROOT)?;
        Some(self.label(*label).1)
    }

    /// Labels of the spans from below `base` down to a node; from the root if `base` is not above it.
    pub(crate) fn path(&self, node: u32, base: u32) -> Vec<String> {
        let (mut path, mut at) = (Vec::new(), node);
        while let Some(&(parent, label)) = self.nodes.get(at as usize).filter(|_| at != ROOT && at != base) {
            path.push(match self.label(label) {
                (Some(domain), name) => format!("{domain}:{name}"),
                (None, name) => name.to_owned(),
            });
            at = parent; // has a lower number
        }
        path.reverse();
        path
    }
}
