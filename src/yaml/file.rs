//! Reading the files that a file names.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde_json::Value as Json;

/// Bytes of a JSON file.
const JSON_MAX: u64 = 4 << 20;

/// The text of a file of at most `max` bytes. An error is a sentence that does not name the file.
pub fn read_text(path: &Path, max: u64) -> Result<String, String> {
    let mut text = String::new();
    let file = open(path).map_err(|error| reason(&error))?;
    match file.take(max + 1).read_to_string(&mut text) {
        Err(error) => Err(reason(&error)),
        Ok(_) if text.len() as u64 > max => Err(format!("the file is larger than {} KiB", max >> 10)),
        Ok(_) => Ok(text),
    }
}

/// Whether a file can be opened. An error is a sentence that does not name the file.
pub(super) fn is_readable(path: &Path) -> Result<(), String> {
    match open(path).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_dir() => Err(reason(&ErrorKind::IsADirectory.into())),
        Ok(_) => Ok(()),
        Err(error) => Err(reason(&error)),
    }
}

/// A file of JSON or YAML. An error is a sentence that does not name the file.
pub(super) fn read_json(path: &Path) -> Result<Json, String> {
    let text = read_text(path, JSON_MAX)?;
    let json = if text.trim_start().starts_with('{') { serde_json::from_str(&text).ok() } else { None };
    match json {
        Some(json) => Ok(json),
        None => serde_yaml::from_str(&text).map_err(|error| format!("the file is neither JSON nor YAML: {error}")),
    }
}

/// A pipe that nobody writes to is empty rather than waited for, and one that somebody writes to is read to its end.
fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// In words that are the same on every system.
fn reason(error: &Error) -> String {
    let reason = match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission is denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::InvalidData => "it is not UTF-8".to_owned(),
        _ => error.to_string(),
    };
    format!("the file can't be read: {reason}")
}
