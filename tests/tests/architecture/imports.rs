//! The imports between files of a crate. Names are followed to the file that defines them: through re-exports, `super`,
//! renames and globs, and inside macros. Imports that only tests need are left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// For each file its imported files, each with one of the paths that lead there.
pub(crate) type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The imports of the crate with this root, `a/src/lib.rs`. `read` returns the text of a file, if it exists.
pub(crate) fn imports(root: &str, read: impl Fn(&str) -> Option<String>) -> Imports {
    let mut files = Files { read, modules: Vec::new(), imports: Imports::new() };
    let module = files.add(None, "crate");
    files.read_file(module, root.to_owned());
    let Files { modules, mut imports, .. } = files;
    for (at, module) in modules.iter().enumerate() {
        let uses = module.uses.iter().map(|import| (&import.file, &import.path, import.name.is_none()));
        for (file, path, glob) in uses.chain(module.paths.iter().map(|(file, path)| (file, path, false))) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            // Names that a macro defines are not visible here: the module stands for them.
            let shorter = (1..=path.len()).rev().map(|length| (length, resolve(&modules, at, &path[..length], 0)));
            let found = match shorter.into_iter().find(|(_, found)| !matches!(found, Found::Nothing)) {
                Some((_, Found::Items(files))) => files,
                Some((length, Found::Module(module))) if glob || length < path.len() => {
                    modules[module].files.iter().collect()
                }
                _ => continue,
            };
            let own = imports.entry(file.clone()).or_default();
            for other in found.into_iter().filter(|other| *other != file) {
                own.entry(other.clone()).or_insert_with(|| path.join("::"));
            }
        }
    }
    imports
}

/// The circles of files that import each other.
pub(crate) fn circles(imports: &Imports) -> Vec<BTreeSet<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![file.as_str()]);
            while let Some(file) = open.pop() {
                let unseen = imports[file].keys().map(String::as_str).filter(|other| reached.insert(*other));
                open.extend(unseen);
            }
            (file.as_str(), reached)
        })
        .collect();
    let circle = |file: &str| -> BTreeSet<&str> {
        reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    let all: BTreeSet<_> = imports.keys().map(|file| circle(file)).filter(|circle| !circle.is_empty()).collect();
    all.into_iter().collect()
}

/// A module, with its files: two if a feature chooses between them.
#[derive(Default)]
struct Module {
    parent: Option<usize>,
    files: BTreeSet<String>,
    modules: BTreeMap<String, usize>,
    /// The files that define each name.
    items: BTreeMap<String, BTreeSet<String>>,
    uses: Vec<Use>,
    /// Each path in the code, with its file.
    paths: Vec<(String, Vec<String>)>,
}

/// One name that a `use` imports, or all names of a module.
struct Use {
    file: String,
    path: Vec<String>,
    name: Option<String>,
}

struct Files<Read> {
    read: Read,
    modules: Vec<Module>,
    imports: Imports,
}

impl<Read: Fn(&str) -> Option<String>> Files<Read> {
    /// The module of this name; a new one if there is none.
    fn add(&mut self, parent: Option<usize>, name: &str) -> usize {
        let new = self.modules.len();
        let index = parent.map_or(new, |parent| *self.modules[parent].modules.entry(name.to_owned()).or_insert(new));
        if index == new {
            self.modules.push(Module { parent, ..Module::default() });
        }
        index
    }

    fn read_file(&mut self, module: usize, file: String) {
        let text = (self.read)(&file).unwrap_or_else(|| panic!("there is no file {file}"));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
        self.imports.insert(file.clone(), BTreeMap::new());
        self.modules[module].files.insert(file.clone());
        self.read_tokens(module, &file, tokens);
    }

    fn read_tokens(&mut self, module: usize, file: &str, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let words: Vec<String> = tokens.iter().map(word).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (mut at, mut path_attribute, mut exported) = (0, None, false);
        while at < tokens.len() {
            at += match &words[at..] {
                ["#", "[", ..] => {
                    let attribute = inside(&tokens[at + 1]).to_string().replace(' ', "");
                    exported |= attribute == "macro_export";
                    if let Some(path) = attribute.strip_prefix("path=") {
                        path_attribute = Some(path.trim_matches('"').to_owned());
                    }
                    if attribute.starts_with("cfg(test") || attribute.starts_with("cfg(all(test") {
                        // The following item is for tests alone.
                        let end = words[at..].iter().position(|word| matches!(*word, ";" | "{"));
                        path_attribute = None;
                        end.map_or(words.len() - at, |end| end + 1)
                    } else {
                        2
                    }
                }
                ["mod", name, ";", ..] => {
                    let child = self.add(Some(module), name);
                    let path = self.file_of(file, name, path_attribute.take());
                    self.read_file(child, path);
                    3
                }
                ["mod", name, "{", ..] | ["mod", "$", name, "{", ..] => {
                    let child = self.add(Some(module), name);
                    let length = if words[at + 1] == "$" { 4 } else { 3 };
                    self.modules[child].files.insert(file.to_owned());
                    self.read_tokens(child, file, inside(&tokens[at + length - 1]));
                    length
                }
                ["use", next, ..] if *next != "<" => {
                    let length = words[at..].iter().position(|word| *word == ";").unwrap_or(words.len() - at);
                    let add = &mut |path, name| {
                        self.modules[module].uses.push(Use { file: file.to_owned(), path, name });
                    };
                    read_use(&[], &tokens[at + 1..at + length], add);
                    length
                }
                ["macro_rules", "!", name, ..] => {
                    let scope = if std::mem::take(&mut exported) { 0 } else { module };
                    self.modules[scope].items.entry((*name).to_owned()).or_default().insert(file.to_owned());
                    3
                }
                ["fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static", name, ..] => {
                    self.modules[module].items.entry((*name).to_owned()).or_default().insert(file.to_owned());
                    1
                }
                [first, ":", ":", ..]
                    if matches!(tokens[at], TokenTree::Ident(_)) && !words[..at].ends_with(&[":", ":"]) =>
                {
                    let mut path = vec![(*first).to_owned()];
                    let mut length = 1;
                    while let Some([":", ":", name]) = words.get(at + length..at + length + 3)
                        && matches!(tokens[at + length + 2], TokenTree::Ident(_))
                    {
                        path.push((*name).to_owned());
                        length += 3;
                    }
                    if path.len() > 1 {
                        self.modules[module].paths.push((file.to_owned(), path));
                    }
                    length
                }
                [_, ..] => {
                    if let TokenTree::Group(group) = &tokens[at] {
                        self.read_tokens(module, file, group.stream());
                    }
                    1
                }
                [] => break,
            };
        }
    }

    /// The file of a module that `parent` declares.
    fn file_of(&self, parent: &str, name: &str, path_attribute: Option<String>) -> String {
        let (folder, own) = parent.rsplit_once('/').unwrap_or_default();
        if let Some(path) = path_attribute {
            return format!("{folder}/{path}");
        }
        let own = own.trim_end_matches(".rs");
        let folder = if matches!(own, "lib" | "mod" | "main") { folder.to_owned() } else { format!("{folder}/{own}") };
        let file = format!("{folder}/{name}.rs");
        if (self.read)(&file).is_some() { file } else { format!("{folder}/{name}/mod.rs") }
    }
}

/// A token as a word; a group as its opening bracket.
fn word(token: &TokenTree) -> String {
    match token {
        TokenTree::Group(group) => match group.delimiter() {
            Delimiter::Brace => "{".to_owned(),
            Delimiter::Bracket => "[".to_owned(),
            Delimiter::Parenthesis | Delimiter::None => "(".to_owned(),
        },
        other => other.to_string(),
    }
}

fn inside(token: &TokenTree) -> TokenStream {
    match token {
        TokenTree::Group(group) => group.stream(),
        _ => TokenStream::new(),
    }
}

/// Calls `add` with each path in the tree of a `use`, and its local name; `None` for a glob.
fn read_use(before: &[String], tree: &[TokenTree], add: &mut impl FnMut(Vec<String>, Option<String>)) {
    for branch in tree.split(|token| token.to_string() == ",") {
        let mut path = before.to_vec();
        let mut tokens = branch.iter();
        let name = loop {
            match tokens.next() {
                Some(TokenTree::Group(group)) => {
                    read_use(&path, &group.stream().into_iter().collect::<Vec<_>>(), add);
                    break None;
                }
                Some(TokenTree::Ident(word)) if word == "as" => break tokens.next().map(ToString::to_string),
                Some(TokenTree::Ident(word)) if word == "self" && !path.is_empty() => {}
                Some(TokenTree::Ident(word)) => path.push(word.to_string()),
                Some(TokenTree::Punct(mark)) if mark.as_char() == '*' => {
                    add(path.clone(), None);
                    break None;
                }
                Some(_) => {}
                None => break path.last().cloned().filter(|_| !branch.is_empty()),
            }
        };
        if name.is_some() {
            add(path, name);
        }
    }
}

/// The meaning of a path.
enum Found<'a> {
    Nothing,
    /// An item of another crate.
    Elsewhere,
    Module(usize),
    /// Items that these files define.
    Items(BTreeSet<&'a String>),
}

fn resolve<'a>(modules: &'a [Module], from: usize, path: &[&'a str], hops: usize) -> Found<'a> {
    // A `use` of an external crate by its bare name leads back to itself.
    if hops > 32 {
        return Found::Nothing;
    }
    let here = &modules[from];
    let Some((first, rest)) = path.split_first() else { return Found::Module(from) };
    let continued = |module: usize, path: &[&'a str]| resolve(modules, module, path, hops + 1);
    match *first {
        "crate" => return continued(0, rest),
        "self" => return continued(from, rest),
        "super" => return here.parent.map_or(Found::Nothing, |parent| continued(parent, rest)),
        _ => {}
    }
    // The last name of a path is a module only if nothing else has that name.
    let submodule = here.modules.get(*first).map(|module| continued(*module, rest));
    if let Some(Found::Module(_) | Found::Items(_)) = submodule
        && !rest.is_empty()
    {
        return submodule.unwrap_or(Found::Nothing);
    }
    let (mut open, mut imported) = (Vec::new(), false);
    for import in &here.uses {
        let target = import.path.iter().map(String::as_str);
        match &import.name {
            Some(name) if name == first => {
                match continued(from, &target.chain(rest.iter().copied()).collect::<Vec<_>>()) {
                    Found::Nothing => imported = true,
                    found => return found,
                }
            }
            Some(_) => {}
            None => open.push(target.collect::<Vec<_>>()),
        }
    }
    if let Some(files) = here.items.get(*first) {
        return Found::Items(files.iter().collect());
    }
    if let Some(found) = submodule {
        return found;
    }
    for path_of_glob in open {
        if let Found::Module(module) = continued(from, &path_of_glob)
            && module != from
        {
            match continued(module, path) {
                Found::Nothing => {}
                found => return found,
            }
        }
    }
    if imported { Found::Elsewhere } else { Found::Nothing }
}
