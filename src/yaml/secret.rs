//! `Secret`: a credential out of `${ENV}` or a file; it can't be printed.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::document::Kind;
use super::report::{Credential, Problem};
use super::slot::Slot;
use super::value::Value;

/// Bytes of a file that holds a credential.
const FILE_MAX: u64 = 64 << 10;

/// A credential. It has neither `Display` nor `Serialize`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes a value that must not be shown again.
    pub fn new(value: impl Into<Box<str>>) -> Self {
        Self(value.into())
    }

    /// The secret itself, for the wire and for comparison. Never for a log, a metric or an error.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Text, a number as it is written, or `{file: path}`; never empty.
impl Value for Secret {
    fn take(slot: Slot<'_, '_>) -> Option<Self> {
        let (node, report) = (slot.node(), slot.report());
        if let (Some(node), Some(report)) = (node, report) {
            report.hide(node);
        }
        let secret = slot.mapping_or(
            |slot| {
                slot.section("secret_file", |fields| {
                    let path: PathBuf =
                        fields.required("file", "The file that holds it; a line feed at its end is left out.")?;
                    fields.report()?.file(path.clone());
                    match read(&path) {
                        Ok(text) => Some(Self::new(text)),
                        Err(reason) => {
                            fields.problem(Problem::error(fields.get("file")?, reason));
                            None
                        }
                    }
                })
            },
            |slot| slot.scalar().map(Self::new),
        )?;
        let (node, report) = (node?, report?);
        if secret.expose().is_empty() {
            report.add(Problem::error(node, "the credential is empty"));
            return None;
        }
        if node.is_filled_in() || node.kind() == Kind::Mapping {
            report.credential(Credential { node, value: secret.clone() });
        }
        Some(secret)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| format!("the file can't be read: {}", reason(&error)))?;
    match file.take(FILE_MAX + 1).read_to_string(&mut text) {
        Err(error) => Err(format!("the file can't be read: {}", reason(&error))),
        Ok(_) if text.len() as u64 > FILE_MAX => Err(format!("the file is larger than {} KiB", FILE_MAX >> 10)),
        Ok(_) => Ok(text.trim_end_matches(['\n', '\r']).to_owned()),
    }
}

/// Why a file can't be read, in words that are the same on every system.
pub fn reason(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".into(),
        ErrorKind::PermissionDenied => "permission is denied".into(),
        ErrorKind::IsADirectory => "it is a directory".into(),
        ErrorKind::InvalidData => "it is not UTF-8".into(),
        _ => error.to_string(),
    }
}
