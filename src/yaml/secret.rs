//! `Secret`: a credential out of `${ENV}` or a file; it can't be printed.

use std::fmt;
use std::path::PathBuf;

use super::document::Kind;
use super::file;
use super::report::{Credential, Problem};
use super::slot::Slot;
use super::value::{Scalar, Value};

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
        // A path is no secret, and an unknown key hides what it holds.
        if let (Some(node), Some(report)) = (node.filter(|node| node.kind() != Kind::Mapping), report) {
            report.hide(node);
        }
        let secret = slot.mapping_or(
            |slot| {
                slot.section("secret_file", |fields| {
                    let path: PathBuf =
                        fields.required("file", "The file that holds it; a line feed at its end is left out.")?;
                    fields.report()?.file(path.clone());
                    match file::read_text(&path, FILE_MAX) {
                        Ok(text) => Some(Self::new(text.trim_end_matches(['\n', '\r']))),
                        Err(reason) => {
                            fields.problem(Problem::error(fields.get("file")?, reason));
                            None
                        }
                    }
                })
            },
            |slot| Scalar::take(slot).map(|Scalar(text)| Self::new(text)),
        )?;
        let (node, report) = (node?, report?);
        if secret.expose().is_empty() {
            report.add(Problem::error(node, "the credential is empty"));
            return None;
        }
        report.secret(Credential { node, value: secret.clone() });
        if node.is_filled_in() || node.kind() == Kind::Mapping {
            report.credential(Credential { node, value: secret.clone() });
        }
        Some(secret)
    }
}
