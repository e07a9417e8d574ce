//! CSV: objects under the names of the first line.

use serde_json::{Map, Value};

/// Cells of a document.
const CELLS_MAX: usize = 1 << 20;

/// A list of objects; all values are texts.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(delimiter(text))
        .flexible(true)
        .has_headers(false)
        .from_reader(text.as_bytes());
    let mut records = reader.records();
    let broken = |_| "is not CSV".to_owned();
    let Some(first) = records.next().transpose().map_err(broken)? else { return Ok(Value::Array(Vec::new())) };
    let mut names: Vec<String> = Vec::with_capacity(first.len());
    for (number, name) in first.iter().enumerate() {
        let name = if name.trim().is_empty() { format!("column_{}", number + 1) } else { name.trim().to_owned() };
        let taken = names.iter().filter(|known| **known == name).count();
        names.push(if taken == 0 { name } else { format!("{name}_{}", number + 1) });
    }
    let mut cells = 0_usize;
    let mut rows = Vec::new();
    for record in records {
        let record = record.map_err(broken)?;
        if record.len() > names.len() {
            return Err(format!("is CSV whose line {} has more cells than its first", rows.len() + 2));
        }
        cells += record.len();
        if cells > CELLS_MAX {
            return Err(format!("is CSV of more than {CELLS_MAX} cells"));
        }
        let row: Map<String, Value> = names.iter().cloned().zip(record.iter().map(Value::from)).collect();
        rows.push(Value::Object(row));
    }
    Ok(Value::Array(rows))
}

/// What the first line has most of.
fn delimiter(text: &str) -> u8 {
    let line = text.lines().next().unwrap_or_default();
    let count = |delimiter: &u8| line.bytes().filter(|byte| byte == delimiter).count();
    // The first of equals, so that a comma is it where there is none.
    [b'\t', b';', b','].into_iter().max_by_key(count).unwrap_or(b',')
}
