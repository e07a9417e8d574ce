//! `merge`: an import into a file that was imported before. What people changed stays, byte for byte; the rest follows the
//! document.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::bundle::clipped;
use super::write::{escaped_entry, item, raw_key, upstream};
use super::{Imported, Operation};
use crate::yaml::{Document, Kind, Node};

/// What stands before the records at the end of a file.
pub(super) const RECORD_HEAD: &str =
    "\n# What was imported: by it --update tells what people changed. A line that is taken out is imported anew.\n";

/// What a record's line begins with.
const RECORD: &str = "#: ";

/// What stands before an entry whose operation is gone.
const GONE: &str = "# no longer in the document: ";

/// Characters of a hash of a value: it tells a change, not an attack.
const HASH: usize = 8;

/// What was imported of one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// `METHOD path`.
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<String>,
    id: String,
    /// A hash of each key of the entry.
    keys: BTreeMap<String, String>,
}

impl Record {
    pub(super) fn of(operation: &Operation, entry: &Map<String, Value>) -> Self {
        Self {
            source: operation.source.name.clone(),
            operation: operation.source.operation_id.clone(),
            id: operation.id.clone(),
            keys: entry.iter().map(|(key, value)| (key.clone(), hash(value))).collect(),
        }
    }

    pub(super) fn line(&self) -> String {
        // A line of JSON has no line feeds, whatever the document holds.
        format!("{RECORD}{}\n", serde_json::to_string(self).unwrap_or_default())
    }
}

/// A file that was imported before.
#[derive(Debug)]
pub struct Earlier {
    text: String,
    document: Document,
    records: Vec<Record>,
}

/// What a merge leads to.
#[derive(Debug)]
pub struct Merged {
    /// The whole file.
    pub text: String,
    /// `METHOD path` of what is new, what follows the document, what people changed and is kept, what they took out, and what
    /// is gone from the document.
    pub added: Vec<String>,
    /// See above.
    pub changed: Vec<String>,
    /// See above.
    pub kept: Vec<String>,
    /// See above.
    pub left_out: Vec<String>,
    /// See above.
    pub gone: Vec<String>,
}

impl Earlier {
    /// Reads a file; an error is one sentence.
    pub fn read(name: &str, text: String) -> Result<Self, String> {
        let document = Document::parse(name, Path::new(""), text.clone());
        let document = document.map_err(|problem| format!("{name}:{}: {}", problem.line, problem.message))?;
        let records = text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix(RECORD)?).ok()).collect();
        Ok(Self { text, document, records })
    }

    /// The ids that operations have in the file, by `METHOD path`: an import keeps them.
    pub fn known_ids(&self) -> BTreeMap<String, String> {
        let by_source = self.by_source();
        by_source
            .into_iter()
            .filter_map(|(source, node)| Some((source, node.get("id")?.as_text()?.to_owned())))
            .collect()
    }

    /// The same for operations whose path has changed and whose operationId has not, which only the import itself finds.
    pub fn moved(&self, operations: &[Operation]) -> BTreeMap<String, String> {
        let present: HashSet<&str> = operations.iter().map(|operation| operation.source.name.as_str()).collect();
        let recorded: HashSet<&str> = self.records.iter().map(|record| record.source.as_str()).collect();
        let ids = self.known_ids();
        let mut moved = BTreeMap::new();
        for operation in operations.iter().filter(|it| !recorded.contains(it.source.name.as_str())) {
            let is_it =
                |record: &&Record| record.operation.is_some() && record.operation == operation.source.operation_id;
            let mut before =
                self.records.iter().filter(is_it).filter(|record| !present.contains(record.source.as_str()));
            if let (Some(record), None) = (before.next(), before.next())
                && let Some(id) = ids.get(&record.source)
            {
                moved.insert(operation.source.name.clone(), id.clone());
            }
        }
        moved
    }

    /// The entry of every operation that has one.
    fn by_source(&self) -> HashMap<String, Node<'_>> {
        let mut by_id = HashMap::new();
        let mut by_route = HashMap::new();
        for node in capabilities(&self.document) {
            let text = |node: Node<'_>, key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
            by_id.extend(text(node, "id").map(|id| (id, node)));
            let route = node.get("route");
            let of_route = |key: &str| route.and_then(|route| text(route, key));
            let method = of_route("method").or_else(|| text(node, "method")).unwrap_or_else(|| "GET".to_owned());
            let path = of_route("path").or_else(|| text(node, "endpoint")).unwrap_or_default();
            by_route.insert(format!("{method} {path}"), node);
        }
        let mut by_source: HashMap<String, Node<'_>> = by_route.clone();
        for record in &self.records {
            let node = by_id.get(&record.id).or_else(|| by_route.get(&record.source));
            match node {
                Some(node) => drop(by_source.insert(record.source.clone(), *node)),
                None => drop(by_source.remove(&record.source)),
            }
        }
        by_source
    }
}

/// Merges an import, whose ids are the file's, into the file.
pub fn merge(earlier: &Earlier, imported: &Imported, prune: bool) -> Result<Merged, String> {
    let mut merged = Merged {
        text: String::new(),
        added: Vec::new(),
        changed: Vec::new(),
        kept: Vec::new(),
        left_out: Vec::new(),
        gone: Vec::new(),
    };
    let lines: Vec<&str> = earlier.text.split_inclusive('\n').collect();
    let mut edits: Vec<Edit> = Vec::new();
    let mut records = Vec::new();
    let mut new_items = String::new();
    let nodes: HashMap<&str, Node<'_>> =
        capabilities(&earlier.document).filter_map(|node| Some((node.get("id")?.as_text()?, node))).collect();
    let by_source = earlier.by_source();
    let recorded: HashMap<&str, &Record> =
        earlier.records.iter().map(|record| (record.source.as_str(), record)).collect();
    let list = capabilities_list(&earlier.document);
    let indent =
        list.map_or(4, |list| list.children().next().map_or(4, |item| (item.span().column as usize).saturating_sub(3)));
    let mut seen = HashSet::new();
    for operation in &imported.operations {
        let source = &operation.source.name;
        let entry = escaped_entry(imported, operation);
        let record = Record::of(operation, &entry);
        let before = recorded.get(source.as_str()).copied();
        let its_entry = |it: &&Record| {
            let entry = by_source.get(&it.source).and_then(|node| node.get("id")?.as_text());
            entry == Some(operation.id.as_str()) || it.id == operation.id
        };
        let before = before.or_else(|| earlier.records.iter().find(its_entry));
        let node = by_source.get(source).copied().or_else(|| nodes.get(operation.id.as_str()).copied());
        seen.extend(before.map(|before| before.source.clone()));
        match (node, before) {
            (Some(node), _) => {
                let block = Block::of(node, &lines);
                let moved = before.filter(|before| before.source != *source);
                if let (Some(block), Some(before)) = (&block, moved) {
                    edits.extend(block.renamed(&lines, &before.source, source));
                }
                let (edited, changed, kept) =
                    block.map_or((Vec::new(), false, true), |block| block.follow(&entry, before));
                edits.extend(edited);
                if changed {
                    merged.changed.push(source.clone());
                }
                if kept {
                    merged.kept.push(source.clone());
                }
                records.push(record);
            }
            (None, Some(before)) => {
                merged.left_out.push(source.clone());
                records.push(before.clone());
            }
            (None, None) => {
                merged.added.push(source.clone());
                let pad = " ".repeat(indent);
                let _ = write!(new_items, "{pad}# {}\n{}", clipped(source), item(&entry, indent));
                records.push(record);
            }
        }
    }
    for record in earlier.records.iter().filter(|record| !seen.contains(&record.source)) {
        let Some(node) = by_source.get(&record.source) else { continue };
        merged.gone.push(record.source.clone());
        let Some(block) = Block::of(*node, &lines) else { continue };
        if prune {
            edits.push(Edit {
                from: block.begin_with_comment(&lines, &record.source),
                to: block.end,
                text: String::new(),
            });
            continue;
        }
        records.push(record.clone());
        let above = block
            .begin
            .checked_sub(1)
            .and_then(|above| lines.get(above))
            .is_some_and(|line| line.trim_start().starts_with(GONE));
        if !above {
            let text = format!("{}{GONE}{}\n", " ".repeat(block.column.saturating_sub(2)), clipped(&record.source));
            edits.push(Edit { from: block.begin, to: block.begin, text });
        }
    }
    if !new_items.is_empty() {
        let at = list
            .and_then(|list| list.children().last())
            .and_then(|last| Block::of(last, &lines))
            .map(|block| block.end);
        let at = at.ok_or("the file has no list of capabilities in block form that new ones could be added to")?;
        edits.push(Edit { from: at, to: at, text: new_items });
    }
    edits.extend(new_upstreams(earlier, imported, &lines));
    merged.text = applied(&lines, edits);
    merged.text = with_records(&merged.text, &records);
    Document::parse("", Path::new(""), merged.text.clone()).map_err(|problem| {
        format!("the merged file could not be read (line {}: {}); nothing was written", problem.line, problem.message)
    })?;
    Ok(merged)
}

/// Lines to be replaced.
#[derive(Debug)]
struct Edit {
    from: usize,
    to: usize,
    text: String,
}

/// An entry in block form: its lines, and the column of its keys.
struct Block<'d> {
    node: Node<'d>,
    begin: usize,
    end: usize,
    column: usize,
}

impl<'d> Block<'d> {
    /// `None` where the entry is written in one line, or otherwise than a line a key.
    fn of(node: Node<'d>, lines: &[&str]) -> Option<Self> {
        let first = node.children().next()?.key_span();
        let (begin, column) = ((first.line as usize).checked_sub(1)?, (first.column as usize).checked_sub(1)?);
        let dash = column.checked_sub(2)?;
        let line = lines.get(begin)?;
        let in_block =
            line.get(..column).is_some_and(|before| before.trim_end() == format!("{}-", " ".repeat(dash)).trim_end());
        let mut used = HashSet::new();
        let line_a_key = node.children().all(|child| {
            let span = child.key_span();
            span.column as usize == column + 1 && used.insert(span.line)
        });
        (in_block && line_a_key).then(|| Self { node, begin, end: end_of(lines, begin + 1, dash), column })
    }

    /// Changes for the keys that nobody changed; whether there are any, and whether people changed others.
    fn follow(&self, entry: &Map<String, Value>, before: Option<&Record>) -> (Vec<Edit>, bool, bool) {
        let Some(before) = before else { return (Vec::new(), false, true) };
        let (mut edits, mut kept) = (Vec::new(), false);
        let starts: Vec<usize> = self.node.children().map(|child| child.key_span().line as usize - 1).collect();
        for (number, child) in self.node.children().enumerate() {
            let key = child.key().unwrap_or_default();
            let theirs = hash(&child.to_json());
            let from = starts.get(number).copied().unwrap_or(self.begin);
            let to = starts.get(number + 1).copied().unwrap_or(self.end);
            match (before.keys.get(key) == Some(&theirs), entry.get(key)) {
                (false, ours) => kept |= ours.is_none_or(|ours| hash(ours) != theirs),
                (true, Some(ours)) if hash(ours) == theirs => {}
                (true, Some(ours)) => {
                    let text = raw_key(key, ours, self.column);
                    let text = if number == 0 { self.behind_dash(&text) } else { text };
                    edits.push(Edit { from, to, text });
                }
                // The dash can't be left alone.
                (true, None) if number > 0 => edits.push(Edit { from, to, text: String::new() }),
                (true, None) => {}
            }
        }
        let mut new = String::new();
        for (key, ours) in entry {
            if self.node.get(key).is_none() {
                if before.keys.contains_key(key) {
                    kept = true;
                } else {
                    new.push_str(&raw_key(key, ours, self.column));
                }
            }
        }
        if !new.is_empty() {
            edits.push(Edit { from: self.end, to: self.end, text: new });
        }
        let changed = !edits.is_empty();
        (edits, changed, kept)
    }

    fn behind_dash(&self, text: &str) -> String {
        let rest = text.get(self.column..).unwrap_or_default();
        format!("{}- {rest}", " ".repeat(self.column.saturating_sub(2)))
    }

    /// The comment that the import wrote above it, with the name that the operation has now.
    fn renamed(&self, lines: &[&str], before: &str, now: &str) -> Option<Edit> {
        let above = self.begin.checked_sub(1)?;
        let line = lines.get(above)?.trim_end();
        let plain = line.trim_start();
        let indent = line.len() - plain.len();
        let text = format!("{}# {}\n", " ".repeat(indent), clipped(now));
        (plain == format!("# {}", clipped(before))).then_some(Edit { from: above, to: above + 1, text })
    }

    /// The first line, or the line of the comment that the import wrote above it.
    fn begin_with_comment(&self, lines: &[&str], source: &str) -> usize {
        let above = self.begin.checked_sub(1).and_then(|above| lines.get(above)).map_or("", |line| line.trim());
        let ours = above == format!("# {}", clipped(source)) || above.starts_with(GONE);
        self.begin - usize::from(ours)
    }
}

/// The first line at or after `from` that is no longer deeper than this indentation.
fn end_of(lines: &[&str], from: usize, indent: usize) -> usize {
    let mut end = from;
    for (number, line) in lines.iter().enumerate().skip(from) {
        let depth = line.len() - line.trim_start_matches(' ').len();
        if line.trim().is_empty() {
            continue;
        }
        if depth <= indent {
            break;
        }
        end = number + 1;
    }
    end
}

fn applied(lines: &[&str], mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| (edit.from, edit.to));
    let mut text = String::new();
    let mut at = 0;
    for edit in edits {
        if edit.from < at && edit.to > edit.from {
            continue;
        }
        for line in lines.get(at..edit.from.max(at)).unwrap_or_default() {
            text.push_str(line);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&edit.text);
        at = edit.to.max(at);
    }
    for line in lines.get(at..).unwrap_or_default() {
        text.push_str(line);
    }
    text
}

/// The text with these records at its end in place of those that it has.
fn with_records(text: &str, records: &[Record]) -> String {
    let is_ours = |line: &str| line.starts_with(RECORD) || line.trim_end() == RECORD_HEAD.trim();
    let kept: String = text.split_inclusive('\n').filter(|line| !is_ours(line)).collect();
    let lines: String = records.iter().map(Record::line).collect();
    format!("{}\n{RECORD_HEAD}{lines}", kept.trim_end())
}

/// Services that the file does not know yet, behind the last that it does.
fn new_upstreams(earlier: &Earlier, imported: &Imported, lines: &[&str]) -> Option<Edit> {
    let known = earlier.document.root().get("upstreams")?;
    let used: HashSet<usize> = imported.operations.iter().map(|operation| operation.service).collect();
    let new = imported.services.iter().enumerate();
    let new =
        new.filter(|(number, service)| *number > 0 && used.contains(number) && known.get(&service.name).is_none());
    let text: String = new.map(|(_, service)| upstream(imported, service)).collect();
    let last = known.children().last()?;
    let key = last.key_span();
    // Our own form is two spaces deep; in another one the operator adds them.
    let at = end_of(lines, key.line as usize, (key.column as usize).checked_sub(1)?);
    (!text.is_empty() && key.column == 3).then_some(Edit { from: at, to: at, text })
}

fn capabilities(document: &Document) -> impl Iterator<Item = Node<'_>> {
    lists(document).flat_map(Node::children).filter(|node| node.kind() == Kind::Mapping && node.get("id").is_some())
}

/// The list that new capabilities are added to: the first that has some.
fn capabilities_list(document: &Document) -> Option<Node<'_>> {
    lists(document).find(|list| list.children().next().is_some())
}

fn lists(document: &Document) -> impl Iterator<Item = Node<'_>> {
    let root = document.root();
    let agents = root.get("agents").into_iter().flat_map(Node::children);
    root.get("agent").into_iter().chain(agents).filter_map(|agent| agent.get("capabilities"))
}

fn hash(value: &Value) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex().chars().take(HASH).collect()
}
